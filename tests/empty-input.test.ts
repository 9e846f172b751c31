import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { AgentLoop, agent, InMemoryStateStore, replay, team } from 'millrace';
import { runBatch } from 'millrace/batch';
import { turnQueue } from 'millrace/fleet';
import { scriptedLLM } from 'millrace/testing';
import { lastValueFrom } from 'rxjs';
import { startedRecord } from './core/dead-turn.ts';

const unreachable = { connection: 'redis://127.0.0.1:1' };
const store = new InMemoryStateStore();
const model = scriptedLLM([]);
const loop = new AgentLoop({ agentId: 'ada', llmProvider: model, taskStateStore: store });
const ada = agent({ id: 'ada', provider: model, taskStateStore: store });
const both = team({ agents: [ada], taskStateStore: store });
let folder = '';
let queue: ReturnType<typeof turnQueue>;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-empty-'));
  queue = turnQueue({ ...unreachable, store });
});
afterEach(async () => {
  await queue.close();
  rmSync(folder, { recursive: true, force: true });
});

const places: Readonly<Record<string, () => unknown>> = {
  'AgentLoop.startTurn': () => loop.startTurn([]),
  'AgentLoop.submit': () => loop.submit([]),
  'agent.startTurn': () => ada.startTurn([]),
  'agent.run': () => ada.run([]),
  'agent.stream': () => ada.stream([]),
  'agent.submit': () => ada.submit([]),
  'agent.steer': () => ada.steer('t', []),
  'team.startTurn': () => both.startTurn([]),
  'team.ask': () => both.ask([]),
  'queue.start': () => queue.start([], { agentId: 'ada' }),
  'queue.schedule': () => queue.schedule('s', { every: 1_000 }, { agentId: 'ada', messages: [] }),
  runBatch: () => lastValueFrom(runBatch([{ messages: [] }], { agent: ada, out: join(folder, 'out.jsonl') })),
};

it.each(Object.keys(places))('%s refuses an empty array of messages, and writes nothing', async (place) => {
  const given = async () => places[place]?.();
  await expect(given()).rejects.toMatchObject({
    code: 'INVALID_INPUT',
    message: expect.stringMatching(
      /a turn is given at least one message, not an empty array; to continue a turn write resume\(taskId\)\.$/,
    ),
  });
  expect(await store.list()).toEqual([]);
  expect(model.calls).toEqual([]);
});

it('a turn of version 0.1 that was started without messages is replayed', async () => {
  const clock = { now: () => 0, schedule: () => () => {} };
  const started = startedRecord(clock, { messages: [] });
  const stamp = { epoch: 1, at: 0 };
  const message = { role: 'assistant' as const, content: 'Hi.' };
  const { text, deviations } = await replay([
    started,
    { type: 'llm.start', iteration: 1, attempt: 1, seq: 2, ...stamp },
    { type: 'llm.done', iteration: 1, attempt: 1, message, calls: [], finishReason: 'stop', seq: 3, ...stamp },
    { type: 'turn.done', text: 'Hi.', reason: 'stop', seq: 4, ...stamp },
  ]).result();
  expect([text, deviations]).toEqual(['Hi.', []]);
});
