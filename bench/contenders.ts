import { bare } from './bare.ts';
import { barePlus } from './bare-plus.ts';
import { agentTurns, engine } from './engine.ts';
import { type FakeModelOptions, fakeModel } from './fake-model.ts';
import type { Contender } from './measure.ts';

/** Names of the contenders, as the tables print them. */
export const names = {
  bare: 'bare',
  barePlus: 'bare+',
  stored: 'engine, memory journal',
  storeless: 'engine, no store',
  agent: 'agent(), no store',
} as const;

/** Both baselines, the engine with and without a store, and an agent, at the same work. */
export function contenders(work: FakeModelOptions, toolConcurrency?: number): readonly Contender[] {
  const onEvent = () => {};
  const listener = async () => {};
  const limit = toolConcurrency === undefined ? {} : { toolConcurrency };
  return [
    { name: names.bare, run: () => bare(fakeModel(work)) },
    { name: names.barePlus, run: () => barePlus(fakeModel(work), listener) },
    { name: names.stored, run: () => engine(fakeModel(work), { keptTasks: 0, onEvent, ...limit })() },
    { name: names.storeless, run: () => engine(fakeModel(work), { onEvent, ...limit })() },
    { name: names.agent, run: () => agentTurns(fakeModel(work), { onEvent, ...limit })() },
  ];
}
