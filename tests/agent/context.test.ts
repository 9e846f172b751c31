import { describe, expect, it } from '@jest/globals';
import { agent, guardrails, type InMemoryMessageStore, type LLMProvider, type Message, type Turn } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { plainTools } from '../core/plain-tools.ts';
import { watch } from '../core/watch-events.ts';
import { agentBench, says, user } from './agent-bench.ts';

const on = agentBench();
const long = 'word '.repeat(400);
const count = plainTools({ count: () => 2 });

describe('what an agent sends', () => {
  it('S0-05 grows by what was answered; a compaction puts one summary into the view, what is remembered stays whole', async () => {
    const messageStore = on.messages();
    const provider = on.bench.model([
      { toolCalls: [{ name: 'count', id: 'k' }] },
      { text: 'Two.' },
      { text: 'They counted.' },
      { text: 'Yes.' },
    ]);
    const ada = on.agent([], {
      provider,
      messageStore,
      toolProviders: [count],
      contextManagement: { compaction: { contextWindow: 2_000, keepLast: 2, threshold: 0.5 } },
    });
    await ada.run('How many?');
    const [first, second] = provider.calls.map(({ messages }) => messages);
    expect(second?.slice(0, 1)).toEqual(first);
    expect(second?.slice(1).map(({ role }) => role)).toEqual(['assistant', 'tool']);
    const remembered = messageStore.load('c').messages;
    await ada.run(long.repeat(2));
    const view = provider.calls.at(-1)?.messages ?? [];
    expect(JSON.stringify(view)).toContain('They counted.');
    expect(view.filter((message) => JSON.stringify(message).includes('They counted.'))).toHaveLength(1);
    expect(messageStore.load('c').messages).toEqual([...remembered, user(long.repeat(2)), says('Yes.')]);
  });

  it('leaves out input that a guardrail refused, and an answer that it refused, but not the input of that one', async () => {
    const messageStore = on.messages();
    const rude = (text: string) => (text.includes('damn') ? { block: 'be polite' } : undefined);
    const input = { name: 'input', check: (messages: readonly Message[]) => rude(JSON.stringify(messages.at(-1))) };
    const provider = on.bench.model([{ text: 'No, damn it.' }, { text: 'Two.' }]);
    const extensions = [guardrails({ input: [input], output: [{ name: 'output', check: rude }] })];
    const ada = on.agent([], { provider, messageStore, extensions });
    await expect(ada.run('Well, damn?')).rejects.toMatchObject({ code: 'GUARDRAIL' });
    expect(messageStore.load('c').messages).toEqual([]);
    await expect(ada.run('How many?')).rejects.toMatchObject({ code: 'GUARDRAIL' });
    await ada.run('Please?');
    const asked = [user('How many?'), says('This answer was withheld.')];
    expect(messageStore.load('c').messages).toEqual([...asked, user('Please?'), says('Two.')]);
  });

  it('is compacted behind the end of a turn; the next one waits for that, and begins with the summary', async () => {
    const messageStore = on.messages();
    const steps = ['One.', 'Two.', 'They counted.', 'Three.', 'Four.'].map((text) => ({ text }));
    const provider = on.bench.model(steps);
    const contextManagement = { compaction: { contextWindow: 8_000, keepLast: 2, threshold: 0.1 } };
    const ada = on.agent([], { provider, messageStore, contextManagement });
    const asked = [long.repeat(2), 'And then?', 'And then?', 'And last?'];
    const callsAtEnds: number[] = [];
    ada.on('status-update', ({ final }) => final && callsAtEnds.push(provider.calls.length));
    for (const text of asked) await ada.run(text);
    expect(callsAtEnds).toEqual([1, 2, 4, 5]);
    const [first, ...rest] = provider.calls[3]?.messages ?? [];
    expect(JSON.stringify(first)).toContain('They counted.');
    expect(rest).toEqual([user('And then?'), says('Two.'), user('And then?')]);
    const answered = ['One.', 'Two.', 'Three.', 'Four.'];
    const whole = asked.flatMap((text, index) => [user(text), says(answered[index] ?? '')]);
    expect(messageStore.load('c').messages).toEqual(whole);
  });

  it('is compacted where no other turn comes, by the agent that ended the turn and not by one that looks on', async () => {
    const messageStore = on.messages();
    const compaction = { contextWindow: 8_000, keepLast: 2, threshold: 0.1 };
    let summed = () => {};
    const summing = new Promise<void>((resolve) => {
      summed = resolve;
    });
    const summarize = () => {
      summed();
      return { text: 'They counted.' };
    };
    const theirs = on.agent([{ text: 'One.' }, { text: 'Two.' }], { messageStore, contextManagement: null });
    await theirs.run(long.repeat(2));
    await theirs.run('And then?', { taskId: 't' });

    const provider = on.bench.model([]);
    const onlooker = on.agent([], { provider, messageStore, contextManagement: { compaction } });
    const told: string[] = [];
    onlooker.on('message:received', ({ taskId }) => told.push(taskId));
    await expect(onlooker.run('And then?', { taskId: 't' })).resolves.toMatchObject({ text: 'Two.' });
    await onlooker.close();
    expect([told, provider.calls]).toEqual([[], []]);

    const steps = [{ text: 'Three.' }, { text: long.repeat(3) }, summarize];
    const ada = on.agent(steps, { messageStore, contextManagement: { compaction }, contextId: 'd' });
    ada.on('message:received', ({ text }) => told.push(text.slice(0, 6)));
    await ada.run('Short?');
    const { text } = await ada.run('And long?');
    await summing;
    expect([told, text]).toEqual([['Three.', 'word w'], long.repeat(3)]);
  });

  it('goes on whole where it could not be compacted, which is logged', async () => {
    const warned: unknown[] = [];
    const silent = () => {};
    const logger = {
      debug: silent,
      info: silent,
      error: silent,
      warn: (...given: unknown[]) => void warned.push(given),
    };
    const steps = [
      { text: 'One.' },
      { text: 'Two.' },
      { error: new Error('no line') },
      { text: 'Notes.' },
      { text: 'Three.' },
    ];
    const provider = on.bench.model(steps);
    const contextManagement = { compaction: { contextWindow: 8_000, keepLast: 2, threshold: 0.1 } };
    const ada = on.agent([], { provider, logger, contextManagement });
    for (const text of [long.repeat(2), 'And then?']) await ada.run(text);
    const { text } = await ada.run(`And then? ${long.repeat(2)}`);
    expect(text).toBe('Three.');
    expect(warned).toEqual([['compaction failed', { contextId: 'c', error: 'The model provider failed: no line' }]]);
    await ada.close();
  });

  it('S2-03 is compacted by default over the threshold, never where that is off, and never by AgentLoop alone', async () => {
    const past = Array.from({ length: 16 }, (_, index) => [user(`${index} ${long.repeat(15)}`), says('Yes.')]).flat();
    const views: (readonly Message[])[] = [];
    const provider: LLMProvider = {
      async call({ messages }) {
        const summing = JSON.stringify(messages[0]).includes('You take notes');
        if (!summing) views.push(messages);
        return { message: says(summing ? 'Notes.' : 'Answer.') };
      },
    };
    const eventsWith = async (start: (messageStore: InMemoryMessageStore) => Turn) => {
      const messageStore = on.messages();
      messageStore.append('c', 'past', past);
      const reader = watch(start(messageStore));
      await reader.ended;
      return reader.of('internal:x.compaction').length;
    };
    const asked = user('And now?');
    const shared = { provider, clock: on.bench.clock, contextId: 'c' };
    const compacted = await eventsWith((messageStore) => agent({ ...shared, messageStore }).startTurn([asked]));
    const off = { compaction: null };
    const whole = await eventsWith((messageStore) =>
      agent({ ...shared, messageStore, contextManagement: off }).startTurn([asked]),
    );
    const loop = new AgentLoop({ agentId: 'ada', llmProvider: provider, clock: on.bench.clock });
    const alone = await eventsWith(() => loop.startTurn([...past, asked]));
    expect([compacted, whole, alone]).toEqual([1, 0, 0]);
    expect(JSON.stringify(views[0])).toContain('Notes.');
    expect(views[0]?.length).toBeLessThan(past.length);
    expect(views.slice(1)).toEqual([
      [...past, asked],
      [...past, asked],
    ]);
  });

  it.each([
    ['shortens old tool outputs by default', {}, true],
    ['sends them whole where that is off', { contextManagement: { toolOutputCache: null } }, false],
    ['sends them whole where all of it is off', { contextManagement: null }, false],
  ])('S2-04 %s', async (_, options, shortened) => {
    const reads = plainTools({ read: () => long.repeat(3) });
    const steps = Array.from({ length: 7 }, () => ({ toolCalls: [{ name: 'read' }] }));
    const provider = on.bench.model([...steps, { text: 'Done.' }]);
    await on.agent([], { provider, toolProviders: [reads], ...options }).run('Read.');
    const first = provider.calls.at(-1)?.messages.find(({ role }) => role === 'tool');
    expect(String(first?.content).length < long.length * 3).toBe(shortened);
  });

  it('ends with a value where it has an output schema', async () => {
    const outputSchema = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] };
    const finish = { toolCalls: [{ name: '__finish__', arguments: { n: 2 } }] };
    const { value } = await on.agent([finish], { outputSchema }).run('How many?');
    expect(value).toEqual({ n: 2 });
  });
});
