/**
 * The part of `AbortSignal` that the ports use.
 *
 * `ports` compiles without Node's and the DOM's types, so that no contract depends on a platform.
 * Cancellation is the one platform type that contracts need. Every layer above sees the platform's
 * own `AbortSignal`, which has all of this; this file is not published.
 */
interface AbortSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  throwIfAborted(): void;
  addEventListener(type: "abort", listener: () => void, options?: { once?: boolean }): void;
  removeEventListener(type: "abort", listener: () => void): void;
}
