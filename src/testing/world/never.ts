/** What the dead wait for. */
export function never(): Promise<never> {
  return Promise.withResolvers<never>().promise;
}
