import { expect, it } from '@jest/globals';
import { AgentLoop, agent, InMemoryStateStore, inParallel, stopSignal, supervisor } from 'millrace';
import { startMetrics, startTracing } from 'millrace/otel';
import { demoLLM, modelServer, scriptedLLM } from 'millrace/testing';
import {
  agUiEvents,
  plainEvents,
  respondWithSSE,
  toAgUIResponse,
  toSSEResponse,
  toUIMessageStreamResponse,
  uiMessageChunks,
} from 'millrace/ui';
import { EMPTY } from 'rxjs';

const store = new InMemoryStateStore();
const clerk = agent({ name: 'clerk', provider: demoLLM(), taskStateStore: store });
const stray: object = { stray: 1 };
const ids = { threadId: 't', runId: 'r' };
const none = () => EMPTY;

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
  scriptedLLM: () => scriptedLLM([], stray),
  'step 1 of scriptedLLM': () => scriptedLLM([stray]),
  'step 2 of scriptedLLM': async () => {
    const llm = scriptedLLM([{ text: 'Hi.' }, () => stray]);
    await llm.call({ messages: [], tools: [] });
    await llm.call({ messages: [], tools: [] });
  },
  startModelServer: () => modelServer(stray),
  'step 1 of the script': () => modelServer({ script: [stray] }),
  'turn.text': () => clerk.startTurn('Hi.').text(stray),
  plainEvents: () => plainEvents(stray),
  uiMessageChunks: () => uiMessageChunks(stray),
  agUiEvents: () => agUiEvents({ ...ids, ...stray }),
  toSSE: () => toSSEResponse(EMPTY, stray),
  respondWithSSE: () => respondWithSSE(none, stray),
  toUIMessageStream: () => toUIMessageStreamResponse(EMPTY, stray),
  toAgUI: () => toAgUIResponse(EMPTY, { ...ids, ...stray }),
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

it.each<readonly [string, (given: object) => unknown]>([
  ['turn.partials', (given) => Reflect.apply(clerk.startTurn('Hi.').partials, clerk.startTurn('Hi.'), [given])],
  ['stopSignal', (given) => Reflect.apply(stopSignal, undefined, [given])],
])('%s takes no options, and says so', (name, open) => {
  expect(() => open(stray)).toThrow(`${name} has no option "stray"; leave the argument out`);
});
