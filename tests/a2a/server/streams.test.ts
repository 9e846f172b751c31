import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from '@jest/globals';
import { AgentLoopError, InMemoryStateStore } from 'millrace';
import { gate } from 'millrace/testing';
import { Observable } from 'rxjs';
import { eventually } from '../../eventually.ts';
import { answerOf, clientOf, message, rpc, serverBench, wireMessage } from './test-server.ts';

const on = serverBench();

/** A model that waits at a gate. */
function haltingModel() {
  const held = gate();
  on.after(() => held.open());
  const call = async () => {
    await held.pass();
    return { message: { role: 'assistant' as const, content: 'Done.' } };
  };
  return { held, provider: { call } };
}

/** Counts who follows its tasks. */
class WatchedStore extends InMemoryStateStore {
  following = 0;

  override follow(...args: Parameters<InMemoryStateStore['follow']>): ReturnType<InMemoryStateStore['follow']> {
    return new Observable((subscriber) => {
      this.following++;
      subscriber.add(() => this.following--);
      subscriber.add(super.follow(...args).subscribe(subscriber));
    });
  }
}

/** The events of a stream that was read whole. */
function eventsIn(stream: string) {
  const blocks = stream.split('\n\n').filter((block) => block.startsWith('data: '));
  return blocks.map((block) => JSON.parse(block.slice('data: '.length)).result);
}

describe('a stream', () => {
  it('is left when its reader leaves, also while nothing happens, and its turn goes on', async () => {
    const store = new WatchedStore();
    const { held, provider } = haltingModel();
    const { url } = await on.serve({ agent: on.echo([], { provider, taskStateStore: store }) });
    const leaving = new AbortController();
    const response = await fetch(`${url}/a2a/rest/message:stream`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
      body: JSON.stringify(wireMessage('Hi', 'left')),
      signal: leaving.signal,
    });
    expect(response.status).toBe(200);
    await held.reached;
    await eventually(() => store.following === 1);
    leaving.abort();
    await eventually(() => store.following === 0);
    held.open();
    const { result } = await answerOf(rpc(url, 'SendMessage', wireMessage('Hi', 'left')));
    expect(result.task.status.state).toBe('TASK_STATE_COMPLETED');
  });

  it('shows a sign of life while it is silent', async () => {
    const { provider } = haltingModel();
    const { url } = await on.serve({ agent: on.echo([], { provider }), heartbeatMs: 20 });
    const response = await rpc(url, 'SendStreamingMessage', wireMessage('Hi'));
    let read = '';
    for await (const chunk of response.body ?? []) {
      read += Buffer.from(chunk).toString();
      if (read.includes(': alive\n\n: alive\n\n')) break;
    }
    expect(read).toContain(': alive');
  });

  it('waits for a reader that does not read: what it missed is merged, and none of it is lost', async () => {
    const piece = 'x'.repeat(8_192);
    const pieces = Array.from({ length: 1_000 }, (_, index) => `${index};${piece}`);
    const { url } = await on.serve({ agent: on.echo([{ text: pieces }]) });
    const body = JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'SendStreamingMessage',
      params: wireMessage('Hi', 'slow'),
    });
    const headers = { 'content-type': 'application/json', 'a2a-version': '1.0' };
    const stream = await new Promise<import('node:http').IncomingMessage>((resolve, reject) => {
      request(`${url}/a2a/jsonrpc`, { method: 'POST', headers }, resolve).once('error', reject).end(body);
    });
    // Nobody reads the stream while another request waits for the end of the turn.
    const { result } = await answerOf(rpc(url, 'SendMessage', wireMessage('Hi', 'slow')));
    expect(result.task.status.state).toBe('TASK_STATE_COMPLETED');
    const events = eventsIn(await text(stream));
    const updates = events.flatMap(({ artifactUpdate }) => artifactUpdate ?? []);
    expect(updates.map(({ artifact }) => artifact.parts?.[0]?.text ?? '').join('')).toBe(pieces.join(''));
    expect(updates.length).toBeLessThan(900);
    expect(events.at(-1).statusUpdate.status.state).toBe('TASK_STATE_COMPLETED');
  });

  it('is one of as many as a caller may have open', async () => {
    const { held, provider } = haltingModel();
    const { url } = await on.serve({ agent: on.echo([], { provider }), maxStreams: 2 });
    const open = [
      await rpc(url, 'SendStreamingMessage', wireMessage('1')),
      await rpc(url, 'SendStreamingMessage', wireMessage('2')),
    ];
    const refused = await rpc(url, 'SendStreamingMessage', wireMessage('3'));
    expect(refused.status).toBe(429);
    expect(await refused.json()).toMatchObject({ error: { data: [{ reason: 'STREAM_LIMIT' }] } });
    held.open();
    for (const each of open) await each.text();
    expect((await rpc(url, 'SendStreamingMessage', wireMessage('3'))).status).toBe(200);
  });

  it('is told that the server shuts down, and its task goes on elsewhere', async () => {
    const store = new InMemoryStateStore();
    const { held, provider } = haltingModel();
    const first = await on.serve({ agent: on.echo([], { provider, taskStateStore: store }) });
    const response = await rpc(first.url, 'SendStreamingMessage', wireMessage('Hi', 'moved'));
    await held.reached;
    await first.server.close();
    const stream = await response.text();
    expect(stream).toMatch(/event: error\ndata: .*The server is shutting down/);
    expect(stream).not.toContain('TASK_STATE_COMPLETED');
    const second = await on.serve({ agent: on.echo([{ text: 'There.' }], { taskStateStore: store }) });
    const client = await clientOf(second.url);
    expect(await client.sendMessage(message('Hi', { messageId: 'moved' }))).toMatchObject({ status: { state: 3 } });
  });
});

describe('a request that waits for its turn', () => {
  it('is not waited for any more when its client leaves, and the turn goes on', async () => {
    const store = new WatchedStore();
    const errors: string[] = [];
    const logger = { debug() {}, info() {}, warn() {}, error: (message: string) => void errors.push(message) };
    const { held, provider } = haltingModel();
    const { url } = await on.serve({ agent: on.echo([], { provider, taskStateStore: store }), logger });
    const leaving = new AbortController();
    const params = JSON.stringify(wireMessage('Hi', 'left'));
    const headers = { 'content-type': 'application/json', 'a2a-version': '1.0' };
    const send = { method: 'POST', headers, body: params, signal: leaving.signal };
    const sent = fetch(`${url}/a2a/rest/message:send`, send).catch(() => 'left');
    await held.reached;
    await eventually(() => store.following === 1);
    leaving.abort();
    expect(await sent).toBe('left');
    await eventually(() => store.following === 0);
    held.open();
    const { result } = await answerOf(rpc(url, 'SendMessage', wireMessage('Hi', 'left')));
    expect(result.task.status.state).toBe('TASK_STATE_COMPLETED');
    expect(errors).toEqual([]);
  });

  it('is answered when the server shuts down', async () => {
    const { held, provider } = haltingModel();
    const { url, server } = await on.serve({ agent: on.echo([], { provider }), closeMs: 60_000 });
    const answer = answerOf(rpc(url, 'SendMessage', wireMessage('Hi')));
    await held.reached;
    await server.close();
    expect((await answer).error).toMatchObject({ code: -32603, message: expect.stringContaining('is shutting down') });
  });
});

describe('what goes wrong inside', () => {
  it('reaches nobody outside', async () => {
    class BrokenStore extends InMemoryStateStore {
      override list(): never {
        throw new AgentLoopError('UNAVAILABLE', 'redis://user:password@10.0.0.7 is away');
      }
    }
    const { url } = await on.serve({ agent: on.echo([], { taskStateStore: new BrokenStore() }) });
    for (const response of [
      rpc(url, 'ListTasks', {}),
      fetch(`${url}/a2a/rest/tasks`, { headers: { 'a2a-version': '1.0' } }),
    ]) {
      const answer = await (await response).text();
      expect(answer).toContain('not available');
      expect(answer).not.toMatch(/redis|password|10\.0/);
    }
  });
});
