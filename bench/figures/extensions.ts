import type { Extension } from 'millrace';
import { engine } from '../engine.ts';
import { fakeModel } from '../fake-model.ts';
import { type Contender, race } from '../measure.ts';
import { printRows } from '../table.ts';

const iterations = 50;
const looks = () => undefined;

/** Hooks that are asked once or more in each iteration, and answer nothing at once. */
const eachIteration = {
  shouldPause: looks,
  prepareIteration: looks,
  beforeLLMCall: looks,
  afterLLMCall: looks,
  beforeToolCall: looks,
  approveToolCall: looks,
  afterToolCall: looks,
  afterIteration: looks,
} satisfies Omit<Extension, 'name'>;

const around = { prepareIteration: looks, afterIteration: looks } satisfies Omit<Extension, 'name'>;
const once = { beforeTurn: looks, beforeFinish: looks, afterTurn: looks } satisfies Omit<Extension, 'name'>;

const ten = (hooks: Omit<Extension, 'name'>): readonly Extension[] =>
  Array.from({ length: 10 }, (_, index) => ({ name: `nothing-${index}`, ...hooks }));

const kinds: readonly { readonly name: string; readonly extensions?: readonly Extension[]; readonly target: string }[] =
  [
    { name: 'no extension', target: '' },
    { name: 'ten without hooks', extensions: ten({}), target: 'nothing' },
    { name: 'ten with hooks around the turn', extensions: ten(once), target: 'next to nothing' },
    { name: 'ten with hooks around the iteration', extensions: ten(around), target: '≤ 1.3x' },
    { name: 'ten with all eight hooks of an iteration', extensions: ten(eachIteration), target: '' },
  ];

/** What extensions cost that change nothing: turns of 50 iterations, one tool an iteration, with a journal in memory. */
export async function measureExtensions(): Promise<void> {
  const timings = await race(kinds.map(contenderOf), 1_500);
  const [none] = timings;
  const rows = timings.map(({ name, median, least }, index) => {
    const perIteration = `${(median / iterations).toFixed(2)} µs (least ${(least / iterations).toFixed(2)})`;
    if (none === undefined || index === 0) return { figure: name, measured: perIteration };
    const ratio = `${(median / none.median).toFixed(2)}x (${(least / none.least).toFixed(2)}x)`;
    return { figure: name, measured: `${perIteration}  ${ratio}`, target: kinds[index]?.target ?? '' };
  });
  printRows(`Extensions that change nothing, ${iterations} iterations, per iteration`, rows);
}

function contenderOf({ name, extensions = [] }: (typeof kinds)[number]): Contender {
  const onEvent = () => {};
  return { name, run: () => engine(fakeModel({ iterations }), { keptTasks: 0, onEvent, extensions })() };
}
