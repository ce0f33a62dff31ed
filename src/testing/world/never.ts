/** The promise that calls of a dead process get: it never settles. */
export function never(): Promise<never> {
  return Promise.withResolvers<never>().promise;
}
