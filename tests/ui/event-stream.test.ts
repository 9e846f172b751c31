import { describe, expect, it } from '@jest/globals';
import { type AgentEvent, AgentLoopError, agent, InMemoryStateStore } from 'millrace';
import { gate, openResources, type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import {
  type EventSource,
  plainEvents,
  respondWithSSE,
  sentenceOf,
  toAgUI,
  toAgUIResponse,
  toSSE,
  toSSEResponse,
  toUIMessageStream,
  toUIMessageStreamResponse,
} from 'millrace/ui';
import { concat, lastValueFrom, of, Subject, throwError, toArray } from 'rxjs';
import { lines } from './frames.ts';

const made = (steps: readonly ScriptedLLMStep[]) =>
  agent({ id: 'bo', provider: scriptedLLM(steps), taskStateStore: new InMemoryStateStore() });

const textOf = (stream: ReadableStream<Uint8Array>) => new Response(stream).text();

describe('streams of a turn', () => {
  it('writes the frames of the AI SDK, with its header and its end', async () => {
    const response = toUIMessageStreamResponse(made([{ text: 'Hi.' }]).startTurn('Hello.', { taskId: 't' }));
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'text/event-stream',
      'x-vercel-ai-ui-message-stream': 'v1',
      'cache-control': 'no-cache',
    });
    expect(response.headers.has('connection')).toBe(false);
    const text = await response.text();
    expect(text).toMatch(/^data: \{"type":"start"/);
    expect(text).toMatch(/\n\ndata: \[DONE\]\n\n$/);
    expect(lines(text).map(({ data }) => data['type'])).toEqual([
      'start',
      'start-step',
      'text-start',
      'text-delta',
      'text-end',
      'finish-step',
      'finish',
    ]);
  });

  it('gives each event of a record its cursor as id, from which a reader goes on', async () => {
    const bo = made([{ text: 'Hi.' }]);
    const all = lines(await textOf(toSSE(bo.startTurn('Hello.', { taskId: 't' }))));
    expect(all.at(-1)).toMatchObject({ event: 'end', data: { state: 'completed' } });
    const at = all.findIndex(({ event, id }) => event === 'iteration' && id !== undefined);
    const from = all[at]?.id;
    const rest = lines(await textOf(toSSE(bo.observe('t'), { from })));
    // What a live text ends with is empty, and not sent.
    const ids = (events: typeof all) => events.flatMap(({ id, event }) => (event === 'text' ? [] : [id]));
    expect(ids(rest)).toEqual(ids(all.slice(at + 1)));
    expect(rest.filter(({ event }) => event === 'text').map(({ data }) => data)).toEqual([
      { id: 't/answer-1', text: 'Hi.', reset: true },
    ]);
  });

  it('sends a comment line where the turn is silent, and none when it speaks', async () => {
    const source = new Subject<AgentEvent>();
    const reader = toSSE(source, { heartbeatMs: 5 }).getReader();
    expect(new TextDecoder().decode((await reader.read()).value)).toBe(': \n\n');
    await reader.cancel();
    expect(source.observed).toBe(false);
  });

  it('cancels an attached turn when its only reader leaves, while the model is silent', async () => {
    const held = gate();
    const turn = made([() => ({ text: ['Half', held.pass()] })]).startTurn('Hello.');
    const reader = toUIMessageStream(turn).getReader();
    await reader.read();
    await held.reached;
    await reader.cancel();
    await turn.settled;
    expect(turn.state?.outcome?.state).toBe('canceled');
  });

  it('leaves a detached turn alone', async () => {
    const held = gate();
    const turn = made([() => ({ text: ['Half', held.pass(), ' and half.'] })]).startTurn('Hello.', { detached: true });
    const reader = toUIMessageStream(turn).getReader();
    await reader.read();
    await reader.cancel();
    held.open();
    await expect(turn.result()).resolves.toMatchObject({ text: 'Half and half.' });
  });

  it('asks for no event before its reader does', async () => {
    const source = new Subject<AgentEvent>();
    const stream = toUIMessageStream(source);
    await new Promise((resolve) => setImmediate(resolve));
    expect(source.observed).toBe(false);
    await stream.cancel();
  });

  it('V-15 ends each stream of AG-UI, also of a turn that is lost or has no end', async () => {
    const task = { taskId: 't', contextId: 'c', agentId: 'a', timestamp: '2030-01-01T00:00:00.000Z' };
    const first: AgentEvent = { ...task, kind: 'internal:iteration-start', iteration: 1 };
    const said: AgentEvent = {
      ...task,
      kind: 'artifact-update',
      artifact: { artifactId: 'answer-1', parts: [{ kind: 'text', text: 'Half' }] },
      append: false,
      lastChunk: false,
    };
    const ids = { threadId: 'th', runId: 'r' };
    for (const code of ['FENCED', 'SHUTDOWN', 'UNAVAILABLE', 'NOT_FOUND'] as const) {
      const lost = throwError(() => new AgentLoopError(code, 'internal words'));
      for (const source of [lost, concat(of(first, said), lost)]) {
        const text = await toAgUIResponse(source, ids).text();
        const types = lines(text).map(({ data }) => data['type']);
        expect([types[0], types.at(-1)]).toEqual(['RUN_STARTED', 'RUN_ERROR']);
        expect(text).not.toContain('internal words');
        expect(lines(text).at(-1)?.data).toMatchObject({ code });
        const opened = types.filter((type) => type === 'TEXT_MESSAGE_START').length;
        expect(types.filter((type) => type === 'TEXT_MESSAGE_END')).toHaveLength(opened);
      }
    }
    const types = lines(await textOf(toAgUI(of(first), ids))).map(({ data }) => data['type']);
    expect(types.slice(-2)).toEqual(['STEP_FINISHED', 'RUN_ERROR']);
  });

  it('V-07 says with metadata before the error that a lost turn can be followed again', async () => {
    const lost = throwError(() => new AgentLoopError('FENCED', 'internal words'));
    const errorText = sentenceOf({ code: 'FENCED' });
    const chunks = lines(await textOf(toUIMessageStream(lost))).map(({ data }) => data);
    expect(chunks).toEqual([
      { type: 'message-metadata', messageMetadata: { taskId: '', code: 'FENCED', errorText, retryable: true } },
      { type: 'error', errorText },
    ]);
    const events = lines(await toSSEResponse(lost).text());
    expect(events).toMatchObject([{ event: 'end', data: { state: 'lost', code: 'FENCED', retryable: true } }]);
  });

  it('says of an unknown turn, and of one with another message, that the request was refused', async () => {
    const bo = made([{ text: 'Hi.' }]);
    await bo.run('Hello.', { taskId: 't' });
    const end = async (source: EventSource) => lines(await textOf(toSSE(source))).map(({ data }) => data);
    const refused = { state: 'refused', retryable: false };
    expect(await end(bo.observe('nowhere'))).toMatchObject([{ ...refused, code: 'NOT_FOUND' }]);
    const sentence = 'This id already has another message or answer. Send a new message with a new id.';
    expect(await end(bo.startTurn('Something else?', { taskId: 't' }))).toMatchObject([
      { ...refused, code: 'CONFLICT', message: sentence },
    ]);
  });

  it('refuses a cursor after the end of the turn, whether the source or the stream skips what the reader has', async () => {
    const bo = made([{ text: 'Hi.' }]);
    await bo.run('Hello.', { taskId: 't' });
    const from = '999-1.0';
    for (const source of [bo.observe('t', { from }), bo.observe('t')])
      expect(lines(await textOf(toSSE(source, { from }))).map(({ data }) => data)).toMatchObject([
        { state: 'refused', code: 'INVALID_INPUT', retryable: false },
      ]);
    await expect(lastValueFrom(bo.observe('t', { from }))).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(
        /^Cursor "999-1.0" is after the end of turn "t", "\d.*; pass a cursor of this turn/,
      ),
    });
  });

  it('V-11 answers a request for an unknown turn with 404, and one for a turn with another message with 409', async () => {
    const bo = made([{ text: 'Hi.' }]);
    const asked = (question: string) => respondWithSSE(() => bo.startTurn(question, { taskId: 't' }));
    const answered = await asked('Hello.');
    expect([answered.status, answered.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    const all = lines(await answered.text());
    expect(all.at(-1)).toMatchObject({ event: 'end', data: { state: 'completed' } });
    const [, first] = all;
    const rest = await respondWithSSE(() => bo.observe('t', { from: first?.id }), { from: first?.id });
    expect(lines(await rest.text()).at(-1)).toEqual(all.at(-1));
    for (const [response, status, code] of [
      [await respondWithSSE(() => bo.observe('nowhere', { recover: {} })), 404, 'NOT_FOUND'],
      [await respondWithSSE(() => bo.observe('no id')), 400, 'INVALID_INPUT'],
      [await respondWithSSE(() => bo.observe('t'), { from: 'no cursor' }), 400, 'INVALID_INPUT'],
      [await respondWithSSE(() => bo.observe('t', { from: '999-1.0' }), { from: '999-1.0' }), 400, 'INVALID_INPUT'],
      [await asked('Something else?'), 409, 'CONFLICT'],
    ] as const) {
      expect(response.status).toBe(status);
      expect(await response.json()).toEqual({ error: { code, message: sentenceOf({ code }) } });
    }
  });

  it('V-13 begins no second iteration for a reader that came back in the middle of one', async () => {
    const events = await lastValueFrom(
      made([{ text: ['One', ' two', ' three.'] }])
        .startTurn('Hello.')
        .pipe(toArray()),
    );
    const text = events.findIndex(({ kind }) => kind === 'artifact-update');
    const from = events.slice(0, text).findLast(({ cursor }) => cursor !== undefined)?.cursor;
    const read = plainEvents({ from });
    expect(events.flatMap(read).map(({ event }) => event)).toEqual(['text', 'text', 'text', 'iteration-end', 'end']);
  });

  it('leaves the turn when the reader of a response does', async () => {
    const held = gate();
    const turn = made([() => ({ text: ['Half', held.pass()] })]).startTurn('Hello.');
    const { body } = await respondWithSSE(() => turn);
    await body?.cancel();
    await turn.settled;
    expect(turn.state?.outcome?.state).toBe('canceled');
  });

  it('leaves no timer and no reader behind', async () => {
    const resources = openResources();
    await textOf(toSSE(made([{ text: 'Hi.' }]).startTurn('Hello.')));
    await resources.assertNone();
  });
});
