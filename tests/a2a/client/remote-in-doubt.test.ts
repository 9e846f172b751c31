import { describe, expect, it } from '@jest/globals';
import { InMemoryStateStore } from 'millrace';
import { type RemoteAgentOptions, turnExtension } from 'millrace/a2a';
import { gate } from 'millrace/testing';
import { watch } from '../../core/watch-events.ts';
import {
  answerCanceled,
  answerCompleted,
  answerStream,
  connectTo,
  listTask,
  messageIds,
  pageOf,
  type WireCall,
  type WireServer,
  type WireServerOptions,
  wireServers,
  wireStatus,
  wireTask,
  wireText,
} from './wire-server.ts';

const serving = wireServers();

describe('a remote agent whose process stops while its message is on the way', () => {
  interface Left {
    readonly server: WireServer;
    readonly taskStateStore: InMemoryStateStore;
    /** The ids of the messages that came. */
    readonly sent: () => readonly unknown[];
  }

  /** Leaves a turn whose message is not answered. */
  async function left(
    listTasks: ((call: WireCall, messageId: unknown) => void) | undefined,
    more: Partial<WireServerOptions> = {},
  ): Promise<Left> {
    const received = gate();
    let isFirst = true;
    const sent = () => messageIds(server);
    const server = await serving(
      {
        SendStreamingMessage(call) {
          if (isFirst) received.open();
          else answerStream(wireText('Done.', false), wireStatus('COMPLETED'))(call);
          isFirst = false;
        },
        GetTask: answerCompleted('Done.'),
        CancelTask: answerCanceled,
        ...(listTasks && { ListTasks: (call: WireCall) => listTasks(call, sent()[0]) }),
      },
      more,
    );
    const taskStateStore = new InMemoryStateStore();
    const leaving = new AbortController();
    const first = await connectTo(server, { taskStateStore, shutdown: leaving.signal, abortGraceMs: 20 });
    const turn = first.startTurn('Go.', { taskId: 't' });
    watch(turn);
    await received.pass();
    leaving.abort();
    await expect(turn.result()).rejects.toMatchObject({ code: 'SHUTDOWN' });
    return { server, taskStateStore, sent };
  }

  /** What another process makes of it. */
  async function resumed(
    listTasks: ((call: WireCall, messageId: unknown) => void) | undefined,
    options: Partial<RemoteAgentOptions> = {},
    more: Partial<WireServerOptions> = {},
  ): Promise<Left & { readonly outcome: Promise<unknown> }> {
    const turn = await left(listTasks, more);
    const far = await connectTo(turn.server, { taskStateStore: turn.taskStateStore, ...options });
    const outcome = far.resume('t').result();
    outcome.catch(() => {});
    return { ...turn, outcome };
  }

  it('is cancelled there, by its message, where its turn is cancelled', async () => {
    const { server, taskStateStore } = await left(listTask);
    await (await connectTo(server, { taskStateStore })).cancel('t');
    expect(server.calls.at(-1)).toMatchObject({ method: 'CancelTask', params: { id: 'remote-1' } });
    expect(taskStateStore.read('t').at(-1)).toMatchObject({ type: 'turn.canceled' });
  });

  it('follows the task that the server has of that message', async () => {
    const { outcome, sent } = await resumed(listTask);
    await expect(outcome).resolves.toMatchObject({ text: 'Done.' });
    expect(sent()).toHaveLength(1);
  });

  it('sends the message again, under its id, where the server has no task of it', async () => {
    const { outcome, sent } = await resumed((call) => listTask(call, 'another', 'COMPLETED'));
    await expect(outcome).resolves.toMatchObject({ text: 'Done.' });
    expect(sent()).toEqual([sent()[0], sent()[0]]);
  });

  it.each([
    ['lists no tasks', undefined],
    ['keeps no messages', (call: WireCall) => call.result(pageOf(wireTask('WORKING')))],
  ])('fails with OUTCOME_UNKNOWN where the server %s, and sends nothing again', async (_what, listTasks) => {
    const { outcome, sent } = await resumed(listTasks);
    await expect(outcome).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' });
    expect(sent()).toHaveLength(1);
  });

  it("sends again, under the same id, with onInDoubt: 'retry'", async () => {
    const { outcome, sent } = await resumed(undefined, { onInDoubt: 'retry' });
    await expect(outcome).resolves.toMatchObject({ text: 'Done.' });
    expect(sent()).toEqual([sent()[0], sent()[0]]);
  });

  it('sends again, under the same id, to a server of Millrace, which takes a message once', async () => {
    const { outcome, server, sent } = await resumed(undefined, {}, { extensions: [turnExtension] });
    await expect(outcome).resolves.toMatchObject({ text: 'Done.' });
    expect(sent()).toEqual([sent()[0], sent()[0]]);
    expect(server.methods).not.toContain('ListTasks');
  });
});
