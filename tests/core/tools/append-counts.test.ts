import { describe, expect, it } from '@jest/globals';
import { InMemoryStateStore, type JournalRecord } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { scriptedLLM } from 'millrace/testing';
import type { AppendOptions, Lease, TaskStateStore } from 'millrace/types';
import { type PlainTool, plainTools } from '../plain-tools.ts';

/** A store that tells what each append held, in short. */
class CountingStore extends InMemoryStateStore {
  readonly appends: string[] = [];

  override append(lease: Lease, records: readonly JournalRecord[], options: AppendOptions): void {
    this.appends.push(records.map(shown).join(', '));
    super.append(lease, records, options);
  }
}

function shown(record: JournalRecord): string {
  if (record.type === 'tool.intent') return `intent ${record.callId}`;
  if (record.type === 'tool.result') return `${record.error?.code ?? 'result'} ${record.callId}`;
  if (record.type === 'turn.asked') return `asked ${record.question.callId}`;
  if (record.type === 'turn.answered') return `answered ${record.callId}`;
  return record.type;
}

/** What a turn with one batch of calls appends, from the response that asks for them to the last result. */
async function appendsOf(
  tools: Readonly<Record<string, PlainTool>>,
  names: readonly string[],
  toolConcurrency: number,
): Promise<readonly string[]> {
  const store = new CountingStore();
  const llmProvider = scriptedLLM([{ toolCalls: names.map((name) => ({ name })) }, { text: 'done' }]);
  const loop = new AgentLoop({
    agentId: 'agent',
    llmProvider,
    toolProviders: [plainTools(tools)],
    taskStateStore: store,
    toolConcurrency,
  });
  const turn = loop.startTurn([{ role: 'user', content: 'go' }]);
  turn.subscribe((event) => {
    if (event.kind !== 'status-update' || event.status.state !== 'input-required') return;
    for (const callId of asked(store.appends)) turn.answer(callId, { approved: true });
  });
  await turn.result();
  const first = store.appends.findIndex((append) => append.startsWith('llm.done'));
  return store.appends.slice(first).filter((append) => /intent|result|TOOL_|asked|answered/.test(append));
}

function asked(appends: readonly string[]): readonly string[] {
  return appends.flatMap((append) => [...append.matchAll(/asked (\S+?)(?:,|$)/g)].flatMap((match) => match[1] ?? []));
}

const soon = async () => 'fine';
const atOnce = () => 'fine';

describe('the appends of a batch', () => {
  it('T-21 hold the first wave with the response, then one for each place that gets free', async () => {
    expect(await appendsOf({ soon }, ['soon', 'soon', 'soon', 'soon', 'soon'], 2)).toEqual([
      'llm.done, intent 1:0, intent 1:1',
      'result 1:0, intent 1:2',
      'result 1:1, intent 1:3',
      'result 1:2, intent 1:4',
      'result 1:3',
      'result 1:4',
    ]);
  });

  it('T-21 hold calls that may not run with the result before them, and the intent behind them', async () => {
    expect(await appendsOf({ soon }, ['soon', 'no', 'soon', 'no', 'no', 'soon'], 1)).toEqual([
      'llm.done, intent 1:0',
      'result 1:0, TOOL_NOT_FOUND 1:1, intent 1:2',
      'result 1:2, TOOL_NOT_FOUND 1:3, TOOL_NOT_FOUND 1:4, intent 1:5',
      'result 1:5',
    ]);
  });

  it('T-21 hold the intents of a sequential tool alone', async () => {
    const tools = { soon, alone: { execute: soon, sequential: true } };
    expect(await appendsOf(tools, ['soon', 'soon', 'alone', 'alone', 'soon', 'soon'], 5)).toEqual([
      'llm.done, intent 1:0, intent 1:1',
      'result 1:0',
      'result 1:1, intent 1:2',
      'result 1:2, intent 1:3',
      'result 1:3, intent 1:4, intent 1:5',
      'result 1:4',
      'result 1:5',
    ]);
  });

  it('T-21 hold all questions with the first wave, and an answer with the intent of its call', async () => {
    const tools = { soon, asks: { execute: soon, needsApproval: true } };
    expect(await appendsOf(tools, ['soon', 'asks', 'soon', 'asks'], 3)).toEqual([
      'llm.done, asked 1:1, asked 1:3, intent 1:0, intent 1:2',
      'answered 1:1, intent 1:1, answered 1:3',
      'result 1:0, intent 1:3',
      'result 1:2',
      'result 1:1',
      'result 1:3',
    ]);
  });

  it.each([1, 5])('T-21 are one for each %i of 5,000 calls that answer at once', async (concurrency) => {
    const names = Array.from({ length: 5_000 }, () => 'atOnce');
    const appends = await appendsOf({ atOnce }, names, concurrency);
    const intents = (from: number) => names.slice(from, from + concurrency).map((_, at) => `intent 1:${from + at}`);
    const waves = Array.from({ length: 5_000 / concurrency }, (_, wave) => wave * concurrency);
    expect(appends).toEqual([
      ['llm.done', ...intents(0)].join(', '),
      ...waves.map((from) =>
        names
          .slice(from, from + concurrency)
          .flatMap((_, at) => [`result 1:${from + at}`, ...intents(from + concurrency).slice(at, at + 1)])
          .join(', '),
      ),
    ]);
  });

  it('T-21 are two for 5,000 calls that may not run behind one that does, on a flat stack', async () => {
    const names = ['soon', ...Array.from({ length: 5_000 }, () => 'no')];
    const appends = await appendsOf({ soon }, names, 1);
    expect(appends.map((append) => append.split(', ').length)).toEqual([2, 5_001]);
  });
});

/** As a store on another machine: each append is acknowledged later. */
function slowly(store: CountingStore): TaskStateStore {
  return new Proxy(store, {
    get(target, name) {
      if (name === 'append') return async (...given: Parameters<CountingStore['append']>) => target.append(...given);
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
}

describe('the appends of a turn with a store that takes its time', () => {
  it('K-03 are two an iteration: a result is sent with the start of the next call', async () => {
    const store = new CountingStore();
    const steps = [{ toolCalls: [{ name: 'soon' }] }, { toolCalls: [{ name: 'soon' }] }, { text: 'done' }];
    const loop = new AgentLoop({
      agentId: 'agent',
      llmProvider: scriptedLLM(steps),
      toolProviders: [plainTools({ soon })],
      taskStateStore: slowly(store),
    });
    await loop.startTurn([{ role: 'user', content: 'go' }]).result();
    expect(store.appends).toEqual([
      'llm.start',
      'llm.done, intent 1:0',
      'result 1:0, llm.start',
      'llm.done, intent 2:0',
      'result 2:0, llm.start',
      'llm.done, turn.done',
    ]);
  });
});
