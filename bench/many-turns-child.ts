import { bare } from './bare.ts';
import { barePlus } from './bare-plus.ts';
import { engine } from './engine.ts';
import { fakeModel } from './fake-model.ts';
import { medianOf } from './measure.ts';

/** What a child process tells of the turns it ran. */
export interface ManyTurns {
  /** CPU time of one turn in the first round, nothing compiled yet, and the median of the later rounds. Microseconds. */
  readonly cold: number;
  readonly warm: number;
  /** The most that the process ever held, in MiB. */
  readonly peakMiB: number;
}

const turns = 1000;
const rounds = 6;
const work = { iterations: 3, delayMs: 10 };

async function runOne(who: string | undefined): Promise<void> {
  switch (who) {
    case 'bare':
      await bare(fakeModel(work));
      break;
    case 'bare-plus':
      await barePlus(fakeModel(work), async () => {});
      break;
    default:
      await engine(fakeModel(work), { store: who === 'engine-store', onEvent: () => {} });
  }
}

async function round(who: string | undefined): Promise<number> {
  const before = process.cpuUsage();
  await Promise.all(Array.from({ length: turns }, () => runOne(who)));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / turns;
}

const who = process.argv[2];
const samples: number[] = [];
for (let n = 0; n < rounds; n++) samples.push(await round(who));
const [cold = Number.NaN, ...warm] = samples;
const told: ManyTurns = { cold, warm: medianOf(warm), peakMiB: process.resourceUsage().maxRSS / 1024 };
console.log(JSON.stringify(told));
