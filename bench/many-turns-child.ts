import { bare } from './bare.ts';
import { barePlus } from './bare-plus.ts';
import { agentTurns, engine } from './engine.ts';
import { sharedFakeModel } from './fake-model.ts';
import { medianOf } from './measure.ts';

/** What a child process tells of the turns it ran. */
export interface ManyTurns {
  /** CPU time of one turn in the first round, nothing compiled yet, and the median of the last rounds. Microseconds. */
  readonly cold: number;
  readonly warm: number;
  /** The most that the process ever held, in MiB. */
  readonly peakMiB: number;
}

const turns = 1000;
const warmUpRounds = 10;
const rounds = 7;
const model = sharedFakeModel({ iterations: 3, delayMs: 10 });

/** A server's case: one loop, one store, many turns. */
function contender(who: string | undefined): () => Promise<unknown> {
  const onEvent = () => {};
  switch (who) {
    case 'bare':
      return () => bare(model);
    case 'bare-plus':
      return () => barePlus(model, async () => {});
    case 'engine-store':
      return engine(model, { keptTasks: 100, onEvent });
    case 'agent':
      return agentTurns(model, { onEvent });
    default:
      return engine(model, { onEvent });
  }
}

async function round(run: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await Promise.all(Array.from({ length: turns }, run));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / turns;
}

const run = contender(process.argv[2]);
const samples: number[] = [];
for (let n = 0; n < warmUpRounds + rounds; n++) samples.push(await round(run));
const [cold = Number.NaN] = samples;
const told: ManyTurns = {
  cold,
  warm: medianOf(samples.slice(warmUpRounds)),
  peakMiB: process.resourceUsage().maxRSS / 1024,
};
console.log(JSON.stringify(told));
