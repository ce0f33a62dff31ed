/** Numbers as people read them. */

/** 1,000,000 */
export function formatCount(count: number): string {
  return count.toLocaleString("en");
}

/** Rounds down: an unfinished batch is never shown as 100 %. */
export function formatPercent(done: number, planned: number): string {
  if (planned === 0) return "0%";
  return `${Math.min(Math.floor((done * 100) / planned), 100)}%`;
}

/** Per second, or per minute when it is slow. */
export function formatRate(itemsPerSecond: number): string {
  if (itemsPerSecond >= 10) return `${formatCount(Math.round(itemsPerSecond))}/s`;
  if (itemsPerSecond >= 0.1 || itemsPerSecond === 0) return `${itemsPerSecond.toFixed(1)}/s`;
  return `${(itemsPerSecond * 60).toFixed(1)}/min`;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  for (; value >= 1024 && unit < UNITS.length - 1; unit++) value /= 1024;
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** "1 item", "2 items", "3 batches". */
export function countNoun(count: number, noun: string, plural = `${noun}s`): string {
  return `${formatCount(count)} ${count === 1 ? noun : plural}`;
}
