/** Milliseconds for a person: `3 ms`, `1.2 s`, `2 min 05 s`. */
export function duration(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, '0')} s`;
}

/** A running duration in milliseconds, in tenths of a second so that the number changes slowly: `0.4 s`. */
export function elapsed(ms: number): string {
  return ms < 999.5 ? `${(Math.max(0, ms) / 1000).toFixed(1)} s` : duration(ms);
}

/** A moment in ISO 8601 as this machine's clock shows it: `2026-11-22 09:03:07`. */
export function localTime(timestamp: string): string {
  const date = new Date(timestamp);
  const two = (value: number) => String(value).padStart(2, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}
