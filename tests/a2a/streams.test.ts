import type { StreamResponse } from '@a2a-js/sdk';
import { describe, expect, it } from '@jest/globals';
import { agent, agentTools, InMemoryStateStore } from 'millrace';
import { cursorHeader, extensionEventsExtension, toolEventsExtension, turnExtension } from 'millrace/a2a';
import { gate, scriptedLLM } from 'millrace/testing';
import { plainTools } from '../core/plain-tools.ts';
import { a2aBench, call, refusal, send } from './bench.ts';
import { collect, message, request, shortOf, textIn } from './messages.ts';

/** The calls of a store, by method. */
function counted() {
  const counts: Record<string, number> = {};
  const store = new InMemoryStateStore();
  for (const name of ['create', 'append', 'read', 'load', 'list', 'acquire', 'post'] as const) {
    const method: (...args: never[]) => unknown = store[name].bind(store);
    Object.defineProperty(store, name, {
      value: (...args: never[]) => {
        counts[name] = (counts[name] ?? 0) + 1;
        return method(...args);
      },
    });
  }
  return { store, counts };
}

const idIn = ({ payload }: StreamResponse): string => (payload?.$case === 'task' ? payload.value.id : '');

function cursorIn({ payload }: StreamResponse): string | undefined {
  const metadata = payload?.$case === 'message' ? {} : payload?.value.metadata;
  const told: unknown = metadata?.[turnExtension];
  return typeof told === 'object' && told !== null && 'cursor' in told ? String(told.cursor) : undefined;
}

describe('a stream', () => {
  it('S1-62 sends no internal event: the task first, then status and artifact updates, never a second task', async () => {
    const { handler } = a2aBench({
      steps: [{ reasoning: 'Hm.', text: 'Counting.', toolCalls: [{ name: 'count' }] }, { text: 'Two.' }],
      agent: { toolProviders: [plainTools({ count: () => 2 })] },
    });
    const seen = await collect(handler.sendMessageStream(request(message('Count')), call()));
    expect(seen.map(shortOf)).toEqual([
      'task:1',
      'status:2',
      'answer-1:Counting.',
      'answer-1+.:',
      'answer-2:Two.',
      'answer-2+.:',
      'status:3',
    ]);
    const wire = JSON.stringify(seen);
    for (const hidden of ['internal:', 'Hm.', 'count', 'checkpoint', 'iteration']) expect(wire).not.toContain(hidden);
  });

  it('shows tool calls by their names to who asks for the extension, where the server offers it', async () => {
    const steps = [{ toolCalls: [{ name: 'count', arguments: { secret: 1 } }] }, { text: 'Two.' }];
    const toolProviders = [plainTools({ count: () => 'private' })];
    const asking = call({ extensions: [toolEventsExtension] });
    const offered = a2aBench({ steps, agent: { toolProviders }, handler: { toolEvents: true } });
    const seen = await collect(offered.handler.sendMessageStream(request(message('Count')), asking));
    const phases = seen.flatMap(({ payload }) =>
      payload?.$case === 'statusUpdate' ? (payload.value.metadata?.[toolEventsExtension] ?? []) : [],
    );
    expect(phases).toEqual([
      { phase: 'start', callId: '1:0', toolName: 'count' },
      { phase: 'complete', callId: '1:0', toolName: 'count', success: true, durationMs: expect.any(Number) },
    ]);
    expect(asking.activatedExtensions).toEqual([toolEventsExtension]);
    expect(JSON.stringify(seen)).not.toMatch(/secret|private/);
    const closed = a2aBench({ steps, agent: { toolProviders } });
    expect(
      JSON.stringify(await collect(closed.handler.sendMessageStream(request(message('Count')), asking))),
    ).not.toContain('toolName');
  });

  it('shows the tool calls of sub-agents with the path to them, and nothing that a sub-agent says', async () => {
    const given = { message: 'secret' };
    const cy = agent({
      id: 'cy',
      provider: scriptedLLM([{ toolCalls: [{ name: 'count' }] }, { text: 'private' }]),
      toolProviders: [plainTools({ count: () => 'private' })],
    });
    const bo = agent({
      id: 'bo',
      provider: scriptedLLM([{ toolCalls: [{ name: 'cy', arguments: given }] }, { text: 'private' }]),
      toolProviders: [agentTools([cy])],
    });
    const { handler } = a2aBench({
      steps: [{ toolCalls: [{ name: 'bo', arguments: given }] }, { text: 'Two.' }],
      agent: { toolProviders: [agentTools([bo])] },
      handler: { toolEvents: true },
    });
    const seen = await collect(
      handler.sendMessageStream(request(message('Count')), call({ extensions: [toolEventsExtension] })),
    );
    const shown = seen.flatMap(({ payload }) =>
      payload?.$case === 'statusUpdate' ? (payload.value.metadata?.[toolEventsExtension] ?? []) : [],
    );
    const toBo = { agentId: 'bo', callId: '1:0' };
    const toCy = { agentId: 'cy', callId: '1:0' };
    const end = { success: true, durationMs: expect.any(Number) };
    expect(shown).toEqual([
      { phase: 'start', callId: '1:0', toolName: 'bo' },
      { phase: 'start', callId: '1:0', toolName: 'cy', path: [toBo] },
      { phase: 'start', callId: '1:0', toolName: 'count', path: [toBo, toCy] },
      { phase: 'complete', callId: '1:0', toolName: 'count', path: [toBo, toCy], ...end },
      { phase: 'complete', callId: '1:0', toolName: 'cy', path: [toBo], ...end },
      { phase: 'complete', callId: '1:0', toolName: 'bo', ...end },
    ]);
    expect(JSON.stringify(seen)).not.toMatch(/secret|private/);
    // Their cursors are not of the task: a client could not continue after them.
    const below = seen.filter(
      ({ payload }) => payload?.$case === 'statusUpdate' && Object(payload.value.metadata?.[toolEventsExtension]).path,
    );
    expect(JSON.stringify(below)).not.toContain(turnExtension);
  });

  it('shows the events of extensions that the server declares to who asks for them, and no others', async () => {
    const events = [
      { name: 'found', payload: { places: 2 }, label: 'found 2 places' },
      { name: 'kept', payload: 'private' },
    ];
    const extensions = [{ name: 'guide', beforeTurn: () => ({ events }) }];
    const streamed = async (more: object, asked: readonly string[]) => {
      const { handler } = a2aBench({ steps: [{ text: 'Two.' }], agent: { extensions }, handler: more });
      return collect(handler.sendMessageStream(request(message('Go')), call({ extensions: asked })));
    };
    const declared = { extensionEvents: ['internal:x.guide.found'] };
    const seen = await streamed(declared, [extensionEventsExtension]);
    const shown = seen.flatMap(({ payload }) =>
      payload?.$case === 'statusUpdate' && payload.value.metadata?.[extensionEventsExtension]
        ? [[payload.value.status?.state, payload.value.metadata]]
        : [],
    );
    const found = { kind: 'x.guide.found', iteration: 0, payload: { places: 2 }, label: 'found 2 places' };
    expect(shown).toEqual([
      [2, { [turnExtension]: { cursor: expect.any(String) }, [extensionEventsExtension]: found }],
    ]);
    expect(JSON.stringify(seen)).not.toContain('private');
    expect(JSON.stringify(await streamed(declared, []))).not.toContain('places');
    expect(JSON.stringify(await streamed({}, [extensionEventsExtension]))).not.toContain('places');
    for (const wrong of ['internal:x.guide', ['internal:tool-start'], ['guide'], [7]]) {
      await expect(streamed({ extensionEvents: wrong }, [])).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
    }
  });

  it('says of a tool call that failed why, by the code alone', async () => {
    const { handler } = a2aBench({
      steps: [{ toolCalls: [{ name: 'fail' }, { name: 'serch' }] }, { text: 'No.' }],
      agent: { toolProviders: [plainTools({ fail: () => Promise.reject(new Error('private')) })] },
      handler: { toolEvents: true },
    });
    const seen = await collect(
      handler.sendMessageStream(request(message('Go')), call({ extensions: [toolEventsExtension] })),
    );
    const ends = seen.flatMap(({ payload }) => {
      const shown: unknown = payload?.$case === 'statusUpdate' && payload.value.metadata?.[toolEventsExtension];
      return typeof shown === 'object' && shown !== null && 'success' in shown ? [shown] : [];
    });
    expect(ends).toHaveLength(2);
    expect(ends).toContainEqual(expect.objectContaining({ callId: '1:0', success: false, code: 'TOOL_FAILED' }));
    expect(ends).toContainEqual(expect.objectContaining({ callId: '1:1', success: false, code: 'TOOL_NOT_FOUND' }));
    expect(JSON.stringify(seen)).not.toContain('private');
  });

  it('of 4,000 deltas costs the store nothing more than one of a few', async () => {
    const run = async (text: readonly string[]) => {
      const { store, counts } = counted();
      const { handler } = a2aBench({ steps: [{ text }], store });
      const seen = await collect(handler.sendMessageStream(request(message('Go')), call()));
      return { counts, text: textIn(seen, 'answer-1'), updates: seen.length };
    };
    const few = await run(['a', 'b']);
    const tokens = Array.from({ length: 4_000 }, (_, index) => `${index} `);
    const many = await run(tokens);
    expect(many.counts).toEqual(few.counts);
    expect(many.text).toBe(tokens.join(''));
    expect(many.updates).toBeGreaterThan(few.updates);
  });

  it('holds the text, not its pieces, for a client that does not read, and keeps every status', async () => {
    const end = gate();
    const tokens = Array.from({ length: 1_000 }, (_, index) => `${index} `);
    const { handler } = a2aBench({
      steps: [{ text: tokens, toolCalls: [{ name: 'wait' }] }, { text: tokens }],
      agent: { toolProviders: [plainTools({ wait: () => end.pass() })] },
    });
    const stream = handler.sendMessageStream(request(message('Go')), call());
    const first = await stream.next();
    await end.reached;
    end.open();
    const id = idIn(first.value ?? {});
    const states = async () => (await handler.getTask({ tenant: '', id }, call())).status?.state;
    while ((await states()) !== 3) await new Promise((resolve) => setImmediate(resolve));
    const seen = await collect(stream);
    expect(seen.length).toBeLessThan(10);
    expect(textIn(seen, 'answer-1')).toBe(tokens.join(''));
    expect(textIn(seen, 'answer-2')).toBe(tokens.join(''));
    expect(shortOf(seen.at(-1) ?? {})).toBe('status:3');
  });

  it('is left at once, also while nothing comes, and the turn goes on without it', async () => {
    const model = gate();
    const { handler } = a2aBench({ steps: [{ gate: model.pass(), text: 'Done.' }] });
    const stream = handler.sendMessageStream(request(message('Go')), call());
    const id = idIn((await stream.next()).value ?? {});
    await stream.next();
    const waiting = stream.next();
    await stream.return();
    expect(await waiting).toEqual({ done: true, value: undefined });
    const other = handler.resubscribe({ tenant: '', id }, call());
    await other.next();
    model.open();
    expect((await collect(other)).map(shortOf).at(-1)).toBe('status:3');
  });
});

describe('a subscription', () => {
  it('begins with the task as it stands and misses nothing, from the middle of an answer on', async () => {
    const middle = gate();
    const { handler } = a2aBench({ steps: [{ text: ['One ', 'two ', middle.pass(), 'three.'] }] });
    const stream = handler.sendMessageStream(request(message('Count')), call());
    const id = idIn((await stream.next()).value ?? {});
    for (let last = ''; last !== 'answer-1:One '; ) last = shortOf((await stream.next()).value ?? {});
    const late = handler.resubscribe({ tenant: '', id }, call());
    const first = await late.next();
    expect(shortOf(first.value ?? {})).toBe('task:2');
    middle.open();
    const seen = await collect(late);
    expect(textIn([first.value ?? {}, ...seen] as StreamResponse[], 'answer-1')).toBe('One two three.');
    expect(seen.map(shortOf).at(-1)).toBe('status:3');
    expect(seen.every(({ payload }) => payload?.$case !== 'task')).toBe(true);
  });

  it('goes on behind a cursor: what came after it comes again, the task without what the client has', async () => {
    const wait = gate();
    const { handler } = a2aBench({
      steps: [{ text: 'First.', toolCalls: [{ name: 'wait' }] }, { text: 'Second.' }],
      agent: { toolProviders: [plainTools({ wait: () => wait.pass() })] },
    });
    const stream = handler.sendMessageStream(request(message('Go')), call());
    const seen: StreamResponse[] = [];
    for await (const response of stream) {
      seen.push(response);
      if (shortOf(response).startsWith('answer-1+.')) break;
    }
    const id = idIn(seen[0] ?? {});
    const cursor = cursorIn(seen[1] ?? {}) ?? '';
    expect(cursor).toMatch(/^1-\d+\.\d+$/);
    await wait.reached;
    const behind = handler.resubscribe({ tenant: '', id }, call({ headers: { [cursorHeader]: cursor } }));
    const again = await behind.next();
    expect(again.value?.payload?.value).toMatchObject({ id, artifacts: [], history: [] });
    wait.open();
    expect((await collect(behind)).map(shortOf)).toEqual([
      'answer-1.:First.',
      'answer-2:Second.',
      'answer-2+.:',
      'status:3',
    ]);
  });

  it('tells cursors in the order of what it sends, that of the task first', async () => {
    const { handler } = a2aBench({ steps: [{ text: 'Done.' }] });
    const seen = await collect(handler.sendMessageStream(request(message('Go')), call()));
    const places = seen.flatMap((response) => {
      const [seq, n] = (cursorIn(response) ?? '').split(/-\d+\./).map(Number);
      return seq === undefined || n === undefined ? [] : [seq * 1_000 + n];
    });
    expect(cursorIn(seen[0] ?? {})).toMatch(/^1-\d+\.0$/);
    expect(places.length).toBeGreaterThan(3);
    expect(places).toEqual([...places].sort((a, b) => a - b));
  });

  it('refuses what is no cursor', async () => {
    const model = gate();
    const { handler } = a2aBench({ steps: [{ gate: model.pass(), text: 'Done.' }] });
    const { id } = await send(handler, 'Go', { returnImmediately: true });
    for (const cursor of ['7', '1-1', 'x'.repeat(999), '9999999999999999-1.1']) {
      const stream = handler.resubscribe({ tenant: '', id }, call({ headers: { [cursorHeader]: cursor } }));
      expect(await refusal(stream)).toMatch(/^RequestMalformedError: millrace-cursor/);
    }
    model.open();
  });

  it('of several clients gets the same updates in the same order, whoever of them leaves', async () => {
    const model = gate();
    const { handler } = a2aBench({ steps: [() => ({ gate: model.pass(), text: ['a', 'b', 'c'] })] });
    const { id } = await send(handler, 'Go', { returnImmediately: true });
    await model.reached;
    const streams = [1, 2, 3].map(() => handler.resubscribe({ tenant: '', id }, call()));
    const firsts = await Promise.all(streams.map((stream) => stream.next()));
    expect(firsts.map(({ value }) => shortOf(value ?? {}))).toEqual(['task:2', 'task:2', 'task:2']);
    await streams[0]?.return();
    const rest = streams.slice(1).map((stream) => collect(stream));
    model.open();
    const [one = [], two = []] = await Promise.all(rest);
    expect(one).toEqual(two);
    expect(textIn(one, 'answer-1')).toBe('abc');
  });
});
