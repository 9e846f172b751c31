import { medianOf } from './checks.ts';
import type { LoadResult } from './load.ts';
import type { LoadOptions } from './options.ts';

/** The figures of a run, a line each. */
export function tableOf({ turns }: LoadOptions, result: LoadResult): string {
  const { ms, takeovers, redis, waits } = result;
  const each = (value: number, digits = 0) => (value / turns).toFixed(digits);
  const rows = [
    ['seconds', (ms / 1_000).toFixed(1)],
    ['turns/s', ((turns * 1_000) / ms).toFixed(1)],
    ['kills', result.kills],
    ['takeovers', `${takeovers.length}, and ${result.inOutage} while Redis was away`],
    [
      'takeover ms',
      `${takeovers[0] ?? '-'} / ${medianOf(takeovers)} / ${takeovers.at(-1) ?? '-'} (min, median, max), p95 ${takeovers[Math.floor(takeovers.length * 0.95)] ?? '-'}`,
    ],
    ['taken after ms', `${waits.large} large, ${waits.small} small tenant (median)`],
    ['CPU ms/turn', `${each(result.cpuMs, 2)} all processes, ${each(redis.cpuMs, 2)} Redis`],
    ['Redis commands/turn', each(redis.commands)],
    ['Redis bytes/turn', `${each(redis.received)} received, ${each(redis.sent)} sent`],
    ['stored bytes/turn', each(result.storedBytes)],
    ['stalls', result.stalls],
  ] as const;
  return rows.map(([name, value]) => `${name.padEnd(26)}${value}`).join('\n');
}
