/**
 * A type that needs no export of the package. TypeScript writes the declarations of a user's module
 * from inferred types: a named type that the package does not export stops it (TS2883), a type
 * without a name is spelled out. An alias of `Unnamed<...>` is a name in our code alone.
 */
export type Unnamed<Type> = Type;
