import { execFileSync } from 'node:child_process';
import { describe, expect, it } from '@jest/globals';

interface Steps {
  /** With 10 running turns. */
  readonly few: number;
  /** With 10,000. */
  readonly many: number;
}

describe('a turn among thousands of others', () => {
  it('C-08 takes about the same steps with 10 and with 10,000 running turns, whatever runs it', () => {
    const script = new URL('children/among-running.mjs', import.meta.url).pathname;
    const lanes: Record<string, Steps> = JSON.parse(execFileSync(process.execPath, [script], { encoding: 'utf8' }));
    expect(Object.keys(lanes)).toEqual(['agent', 'loop', 'team', 'UI handler', 'A2A server']);
    // What is sorted is searched by halves, and a block of it is split now and then.
    const grown = Object.entries(lanes).map(([lane, { few, many }]) => [lane, many / few]);
    expect(grown.filter(([, ratio]) => Number(ratio) > 1.1)).toEqual([]);
    for (const { few } of Object.values(lanes)) expect(few).toBeGreaterThan(1_000);
  });
});
