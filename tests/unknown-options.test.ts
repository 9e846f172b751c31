import { expect, it } from '@jest/globals';
import { AgentLoop, agent, InMemoryStateStore, inParallel, supervisor } from 'millrace';
import { startMetrics, startTracing } from 'millrace/otel';
import { demoLLM } from 'millrace/testing';

const store = new InMemoryStateStore();
const clerk = agent({ name: 'clerk', provider: demoLLM(), taskStateStore: store });
const stray: object = { stray: 1 };

/** What nothing else checks for a caller without a compiler: an option that nobody reads looks as if it were in effect. */
const doors: Readonly<Record<string, () => unknown>> = {
  'AgentLoop.observe': () => AgentLoop.observe('t', { store, ...stray }),
  'AgentLoop.cancel': () => AgentLoop.cancel('t', { store, ...stray }),
  'AgentLoop.answer': () => AgentLoop.answer('t', { store, answers: {}, ...stray }),
  observe: () => clerk.observe('t', stray),
  tasks: () => clerk.tasks('c', stray),
  recover: () => clerk.recover(stray),
  inParallel: () => inParallel([clerk], stray),
  supervisor: () => supervisor(clerk, stray),
  demoLLM: () => demoLLM(stray),
  startTracing: () => startTracing(stray),
  startMetrics: () => startMetrics(stray),
};

it.each(Object.entries(doors))(
  '%s refuses an option that it does not have, and names those that it has',
  async (name, open) => {
    const given = async () => open();
    await expect(given()).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringContaining(`${name} has no option "stray"; the options are: `),
    });
  },
);
