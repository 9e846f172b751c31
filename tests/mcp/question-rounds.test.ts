import { inspect } from 'node:util';
import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import { type AgentLoopConfig, InMemoryStateStore, type TurnResult, textOf } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { McpServerOptions, McpTools } from 'millrace/mcp';
import { recordSpans, scriptedLLM } from 'millrace/testing';
import { eventually } from '../eventually.ts';
import { ChildPrograms, kill, nextMessage } from '../stores/lmdb/child-programs.ts';
import { TemporaryStores } from '../stores/lmdb/temporary-stores.ts';
import { type SdkServer, sdkServer, toolsOf } from './sdk-server.ts';

const programs = new ChildPrograms('tests/mcp/children');
const stores = new TemporaryStores();
const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});
afterAll(() => Promise.all([programs.clear(), stores.clear()]));

async function started(options: Partial<Parameters<typeof sdkServer>[0]> = {}): Promise<SdkServer> {
  const server = await sdkServer({ version: 'v2', way: 'http', ...options });
  open.push(server);
  return server;
}

function client(server: SdkServer, more: Partial<McpServerOptions> = {}): McpTools {
  const tools = toolsOf(server, more);
  open.push(tools);
  return tools;
}

function loopOf(tools: McpTools, ...names: readonly string[]): AgentLoopConfig {
  return {
    agentId: 'assistant',
    llmProvider: scriptedLLM([{ toolCalls: names.map((name) => ({ name: `it__${name}` })) }, { text: 'done' }]),
    toolProviders: [tools],
    taskStateStore: new InMemoryStateStore(),
  };
}

const hello = [{ role: 'user' as const, content: 'hello' }];

function toolTexts({ messages }: TurnResult): readonly string[] {
  return messages.filter(({ role }) => role === 'tool').map(({ content }) => textOf(content));
}

function linesOf({ ledger }: SdkServer, start: string): readonly string[] {
  return ledger().filter((line) => line.startsWith(start));
}

describe.each(['http', 'stdio'] as const)('a question of a server of 2026-07-28 over %s', (way) => {
  it('suspends the turn, round after round, and each answer sends one request', async () => {
    const server = await started({ way });
    const config = loopOf(client(server), 'ask_twice');
    const turn = new AgentLoop(config).startTurn(hello);
    const { status, questions } = await turn.result();
    expect(status).toBe('input-required');
    expect(questions).toEqual([
      {
        id: '1:0',
        callId: '1:0',
        kind: 'input',
        toolName: 'it__ask_twice',
        prompt: 'Who are you?',
        data: { server: 'it', mode: 'form', requestedSchema: expect.objectContaining({ required: ['name'] }) },
      },
    ]);
    const wrong = await AgentLoop.resume(turn.taskId, config, { answers: { '1:0': 'A' } }).result();
    expect(wrong.questions).toMatchObject([{ id: '1:0.2', prompt: expect.stringMatching(/did not fit/) }]);
    const next = await AgentLoop.resume(turn.taskId, config, { answers: { '1:0.2': 'Ada' } }).result();
    expect(next.questions).toMatchObject([{ id: '1:0.3', prompt: 'Which colour?' }]);
    const answers = { '1:0.3': { action: 'accept', content: { colour: 'red' } } };
    const ended = await AgentLoop.resume(turn.taskId, config, { answers }).result();
    // What the form leaves out has its default.
    expect(toolTexts(ended)).toEqual(['{"name":"Ada","colour":"red","shade":"dark"}']);
    expect(linesOf(server, 'ask_twice').map((line) => line.slice(0, 17))).toEqual([
      'ask_twice round 0',
      'ask_twice round 1',
      'ask_twice round 2',
    ]);
  });

  it('is one of several of a round: the user is asked each, then the model, and all answers are sent together', async () => {
    const server = await started({ way });
    const usage = { promptTokens: 7, completionTokens: 3, totalTokens: 10 };
    const sampling = { provider: scriptedLLM([{ text: 'Otters.', usage }]) };
    const config = loopOf(client(server, { sampling, roots: ['/tmp'] }), 'ask_all');
    const turn = new AgentLoop(config).startTurn(hello);
    expect((await turn.result()).questions).toMatchObject([{ id: '1:0', prompt: 'First?' }]);
    const next = await AgentLoop.resume(turn.taskId, config, { answers: { '1:0': { name: 'One' } } }).result();
    expect(next.questions).toMatchObject([{ id: '1:0.2', prompt: 'Second?' }]);
    const answers = { '1:0.2': { action: 'decline' } };
    const ended = await AgentLoop.resume(turn.taskId, config, { answers }).result();
    expect(toolTexts(ended)).toEqual(['{"first":"One","second":"decline","said":"Otters.","roots":1}']);
    expect(ended.usage.totalTokens).toBe(10);
    expect(linesOf(server, 'ask_all')).toEqual(['ask_all begins', 'ask_all answered']);
  });
});

describe('a call of a server of 2026-07-28 that asks', () => {
  it('makes the turn auth-required where the user has to go to an address', async () => {
    const config = loopOf(client(await started()), 'sign_in');
    const turn = new AgentLoop(config).startTurn(hello);
    const { status, questions } = await turn.result();
    expect(status).toBe('auth-required');
    expect(questions).toMatchObject([{ kind: 'auth', data: { mode: 'url', url: 'https://bank.test/login' } }]);
    const ended = await AgentLoop.resume(turn.taskId, config, { answers: { '1:0': true } }).result();
    expect(toolTexts(ended)).toEqual(['accept']);
  });

  it('fails where the client does not offer what it wants, and after ten rounds', async () => {
    const server = await started();
    const ended = await new AgentLoop(loopOf(client(server, { elicitation: false }), 'ask_twice'))
      .startTurn(hello)
      .result();
    expect(toolTexts(ended)[0]).toMatch(/capabilit|may not/i);
    const endless = await new AgentLoop(loopOf(client(server), 'endless')).startTurn(hello).result();
    expect(toolTexts(endless)[0]).toContain('asked in more than 10 rounds');
    expect(linesOf(server, 'endless')).toHaveLength(11);
  });

  it('keeps apart what two calls of one response ask', async () => {
    const config = loopOf(client(await started()), 'ask_twice', 'ask_twice');
    const turn = new AgentLoop(config).startTurn(hello);
    const { questions } = await turn.result();
    expect(questions.map(({ id }) => id).sort()).toEqual(['1:0', '1:1']);
    const names = { '1:0': { name: 'One' }, '1:1': { name: 'Two' } };
    const next = await AgentLoop.resume(turn.taskId, config, { answers: names }).result();
    expect(next.questions.map(({ id }) => id).sort()).toEqual(['1:0.2', '1:1.2']);
    const colours = { '1:0.2': { colour: 'red' }, '1:1.2': { colour: 'green' } };
    const ended = await AgentLoop.resume(turn.taskId, config, { answers: colours }).result();
    expect(toolTexts(ended)).toEqual([
      '{"name":"One","colour":"red","shade":"dark"}',
      '{"name":"Two","colour":"green","shade":"dark"}',
    ]);
  });

  it('P-04 starts anew once where its state has expired, and asks no equal question again', async () => {
    const before = await started({ env: { TTL: '-60' } });
    const port = 'url' in before.options ? new URL(before.options.url).port : '';
    const config = loopOf(client(before), 'ask_twice');
    const turn = new AgentLoop(config).startTurn(hello);
    await turn.result();
    // Another process of the same server, whose states are valid for longer.
    await before.close();
    open.splice(open.indexOf(before), 1);
    const server = await started({ env: { PORT: port } });
    const next = await AgentLoop.resume(turn.taskId, config, { answers: { '1:0': { name: 'Ada' } } }).result();
    expect(next.questions).toMatchObject([{ id: '1:0.2', prompt: 'Which colour?' }]);
    const ended = await AgentLoop.resume(turn.taskId, config, { answers: { '1:0.2': { colour: 'red' } } }).result();
    expect(toolTexts(ended)).toEqual(['{"name":"Ada","colour":"red","shade":"dark"}']);
    expect(linesOf(before, 'ask_twice round 0')).toHaveLength(1);
    expect(linesOf(server, 'ask_twice round 0')).toHaveLength(1);
    expect(linesOf(server, 'ask_twice round 1')).toHaveLength(1);
  });

  it('P-03 shows its state to nobody: in no event, span, log, question or result', async () => {
    const server = await started();
    const shown: unknown[] = [];
    const note = (...said: unknown[]) => shown.push(said);
    const logger = { debug: note, info: note, warn: note, error: note };
    const config = { ...loopOf(client(server), 'ask_twice'), logger };
    const spans = recordSpans();
    try {
      const turn = new AgentLoop(config).startTurn(hello);
      turn.subscribe({ next: (event) => shown.push(event) });
      shown.push(await turn.result());
      for (const answers of [{ '1:0': { name: 'Ada' } }, { '1:0.2': { colour: 'red' } }]) {
        const resumed = AgentLoop.resume(turn.taskId, config, { answers });
        resumed.subscribe({ next: (event) => shown.push(event) });
        shown.push(await resumed.result());
      }
      shown.push(
        ...spans.spans().map(({ name, attributes, events, status }) => ({ name, attributes, events, status })),
      );
      const states = linesOf(server, 'state ').map((line) => line.slice('state '.length));
      expect(states).toHaveLength(2);
      const everything = inspect(shown, { depth: 20, maxStringLength: null, maxArrayLength: null });
      expect(everything).toContain('Who are you?');
      for (const state of states) expect(everything).not.toContain(state);
      // The journal has it, which the next process needs.
      const journal = JSON.stringify(await config.taskStateStore?.read(turn.taskId));
      for (const state of states) expect(journal).toContain(state);
    } finally {
      await spans.dispose();
    }
  });
});

describe('a turn that a server of 2026-07-28 has asked', () => {
  it('P-02 continues in another process, after both were killed, with one request and the same state', async () => {
    const path = stores.path();
    const first = await started();
    const child = programs.start('asked-turn', JSON.stringify(first.options), path);
    await nextMessage(child);
    await kill(child);
    await first.close();
    open.splice(open.indexOf(first), 1);
    expect(linesOf(first, 'ask_twice')).toEqual(['ask_twice round 0 {}']);

    const second = await started();
    const taskStateStore = stores.open({ path });
    await eventually(() => !taskStateStore.list().some(({ held }) => held));
    const config = { ...loopOf(client(second)), llmProvider: scriptedLLM([{ text: 'done' }]), taskStateStore };
    const journal = JSON.stringify(await taskStateStore.read('t'));
    const next = await AgentLoop.resume('t', config, { answers: { '1:0': { name: 'Ada' } } }).result();
    expect(next.questions).toMatchObject([{ id: '1:0.2', prompt: 'Which colour?' }]);
    expect(linesOf(second, 'ask_twice')).toEqual([
      'ask_twice round 1 {"name":{"action":"accept","content":{"name":"Ada"}}}',
    ]);
    const [state = ''] = linesOf(second, 'state ');
    expect(journal).toContain(state.slice('state '.length));
    const ended = await AgentLoop.resume('t', config, { answers: { '1:0.2': { colour: 'red' } } }).result();
    expect(toolTexts(ended)).toEqual(['{"name":"Ada","colour":"red","shade":"dark"}']);
  });
});
