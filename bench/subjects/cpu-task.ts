/** The task of `sluice-cpu.ts`: the same amount of work each time, about 20 ms of a core. */
export function countPrimes(below: number): number {
  let primes = 0;
  for (let n = 2; n < below; n++) {
    let divisor = 2;
    while (divisor * divisor <= n && n % divisor !== 0) divisor++;
    if (divisor * divisor > n) primes++;
  }
  return primes;
}
