import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { names } from '../contenders.ts';
import type { ManyTurns } from '../many-turns-child.ts';
import { medianOf } from '../measure.ts';
import { printRows } from '../table.ts';

const child = new URL('many-turns-child.mjs', import.meta.url).pathname;
const repeats = 3;
const lanes = [
  { name: names.bare, who: 'bare' },
  { name: names.barePlus, who: 'bare-plus' },
  { name: names.stored, who: 'engine-store' },
  { name: names.storeless, who: 'engine' },
  { name: names.agent, who: 'agent' },
] as const;

/** 1,000 turns at once, each contender in processes of its own. */
export async function measureManyTurns(): Promise<void> {
  const told = new Map<string, ManyTurns[]>(lanes.map(({ who }) => [who, []]));
  for (let n = 0; n < repeats; n++) {
    for (const { who } of lanes) told.get(who)?.push(await runChild(who));
  }
  const results = lanes.map(({ name, who }) => ({ name, ...middle(told.get(who) ?? []) }));
  const [bare, barePlus] = results;
  if (bare === undefined || barePlus === undefined) return;
  const rows = results.map((each) => {
    const cpu = `${each.warm.toFixed(0)} µs (first round ${each.cold.toFixed(0)}), peak RSS ${each.peakMiB.toFixed(0)} MiB`;
    if (each === bare) return { figure: each.name, measured: cpu };
    const ratios = `${ratio(each, bare)} bare, ${ratio(each, barePlus)} bare+`;
    const measured = `${cpu}  ${ratios}`;
    return each === barePlus
      ? { figure: each.name, measured }
      : { figure: each.name, measured, target: 'target ≤ 6x bare, ≤ 160 MB' };
  });
  printRows('1,000 turns at once, 3 tool iterations each, the model answers after 10 ms; CPU time of one turn', rows);
}

function ratio(one: ManyTurns, other: ManyTurns): string {
  return `${(one.warm / other.warm).toFixed(1)}x (first ${(one.cold / other.cold).toFixed(1)}x)`;
}

async function runChild(who: string): Promise<ManyTurns> {
  const { stdout } = await promisify(execFile)(process.execPath, [child, who]);
  return JSON.parse(stdout);
}

function middle(told: readonly ManyTurns[]): ManyTurns {
  return {
    cold: medianOf(told.map(({ cold }) => cold)),
    warm: medianOf(told.map(({ warm }) => warm)),
    peakMiB: medianOf(told.map(({ peakMiB }) => peakMiB)),
  };
}
