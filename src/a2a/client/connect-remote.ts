import type { AgentCard } from '@a2a-js/sdk';
import type { Agent } from '../../agent/agent.ts';
import { agentToolName } from '../../agent/agent-tools.ts';
import { agent } from '../../agent/make-agent.ts';
import { type CancelOutside, withCancelOutside } from '../../agent/turn-controls.ts';
import { type Clock, type Extension, isSuspended, systemClock } from '../../core/contracts/index.ts';
import { foldRecords, type LoopState, type TurnOutcome } from '../../core/journal/index.ts';
import { after } from '../../core/streams/index.ts';
import type { RemoteAgentOptions, ResolvedRemote } from './remote-agent.ts';
import { RemoteConnection, type RequestScope } from './remote-connection.ts';
import { retrying } from './remote-errors.ts';
import { lastReference, messageIdOf, type RemoteReference, sendName } from './remote-progress.ts';
import { remoteProvider, remoteValue } from './remote-provider.ts';
import { remoteTools } from './remote-tools.ts';

/** How often the other side may ask within one turn, about. */
const mostSteps = 1_000;

/** The agent of `remoteAgent`, with what needs the package of the protocol. */
export async function connectRemote(options: RemoteAgentOptions, remote: ResolvedRemote): Promise<Agent> {
  const connection = new RemoteConnection(remote);
  const { silenceMs, taskTimeoutMs, maxSilenceMs } = remote;
  const { clock = systemClock, extensions = [] } = remote.local;
  const named = await namesOf(options, connection);
  const times = { clock, silenceMs, taskTimeoutMs, maxSilenceMs };
  return agent({
    ...remote.local,
    ...named,
    provider: remoteProvider({ connection, agentName: named.name, ...times }),
    tools: remoteTools(connection, { ...times, onInDoubt: remote.onInDoubt }),
    toolFailureMode: 'fail',
    contextManagement: null,
    retry: null,
    // Its waits have their own limits: silenceMs, maxSilenceMs and taskTimeoutMs.
    modelSilenceMs: 0,
    maxIterations: mostSteps,
    extensions: [...extensions, remoteValue(), cancelRemote(connection, clock)],
  });
}

async function namesOf({ name, description }: RemoteAgentOptions, connection: RemoteConnection) {
  if (name !== undefined && description !== undefined) return { name, description };
  const card = await connection.card({ signal: new AbortController().signal });
  return { name: name ?? agentToolName(card), description: description ?? descriptionOf(card) };
}

/** With the skills that say more than the card does. */
function descriptionOf({ description, skills }: AgentCard): string {
  const more = skills.filter((skill) => skill.description !== description);
  const listed = more.map((skill) => `${skill.name}: ${skill.description.replace(/\.$/, '')}`).join('; ');
  return `${description}${listed && ` Its skills: ${listed}`}`;
}

/** The message of the user that this turn works on is at a remote task: which one, as far as the journal knows. */
function remoteTaskOf(state: LoopState, address: string): RemoteReference | undefined {
  return lastReference(state.messages.slice(state.turn.given), address);
}

const cancelMs = 60_000;

/**
 * Cancels the remote task where the turn ends before it, also that of a message which was not answered. Asks again while the server cannot
 * be reached, for a minute at most. A task that has ended, or that the server no longer knows, needs no cancel, nor does a message that
 * did not reach the server.
 */
function cancelRemote(connection: RemoteConnection, clock: Clock): Extension {
  const extension: Extension = {
    name: 'cancel-remote',
    onError: 'continue',
    timeoutMs: cancelMs,
    async afterTurn({ outcome, state, signal, traceContext, clock }) {
      const reference = remoteTaskOf(state, connection.name.address);
      if (reference?.messageId !== undefined) connection.streams.drop(reference.messageId);
      const sent = gaveUp(outcome) ? undefined : unanswered(connection, state);
      connection.forget(state.turn.taskId);
      if (outcome.state === 'completed') return;
      const scope = { signal, traceContext };
      const cancel = async () => {
        const taskId = (sent && (await taskBegun(connection, sent, scope))) ?? reference?.taskId;
        if (taskId !== undefined) await connection.cancel(taskId, scope);
      };
      await retrying(cancel, { clock, signal, forMs: cancelMs }).catch(() => {});
    },
  };
  return withCancelOutside(extension, cancelByJournal(connection, clock));
}

const outsideMs = 10_000;

/**
 * Cancels the remote task that the journal of a turn names, where nobody runs the turn: of a suspended one before its end is written, else
 * after it, as the turn may have an owner that cancels the task itself. A server that cannot be reached for ten seconds keeps the task.
 */
function cancelByJournal(connection: RemoteConnection, clock: Clock): CancelOutside {
  return async (records) => {
    const state = foldRecords(records);
    if (state.isComplete) return async () => {};
    const cancel = async () => {
      const late = new AbortController();
      const { signal } = late;
      const ask = async () => {
        const sent = openMessage(state);
        const taskId =
          (sent && (await taskBegun(connection, sent, { signal }))) ??
          remoteTaskOf(state, connection.name.address)?.taskId;
        if (taskId !== undefined) await connection.cancel(taskId, { signal });
      };
      // One request to a server that says nothing may take longer than all of it.
      const stop = after(outsideMs, clock, () => late.abort());
      await retrying(ask, { clock, signal, forMs: outsideMs }).catch(() => {});
      stop();
    };
    if (state.outcome === undefined || !isSuspended(state.outcome.state)) return cancel;
    await cancel();
    return async () => {};
  };
}

/** The task of a message whose sender stopped before it knew the task. */
async function taskBegun(
  connection: RemoteConnection,
  messageId: string,
  scope: RequestScope,
): Promise<string | undefined> {
  const found = await connection.taskOf(messageId, scope);
  return typeof found === 'string' ? undefined : found.id;
}

/** The id of the message of a call that has no result. */
function openMessage({ turn, pendingToolCalls }: LoopState): string | undefined {
  const open = pendingToolCalls.find(
    ({ call, intent, result }) => call.function.name === sendName && intent && !result,
  );
  return open && messageOfCall(turn, open.callId);
}

/** The id of the message of the call that the turn ended with, where that failed and its server may have the message. */
function unanswered(connection: RemoteConnection, { turn, closedCalls, epoch }: LoopState): string | undefined {
  // It is the only call of its iteration.
  const [last] = closedCalls;
  if (last?.call.function.name !== sendName || !last.intent || last.result?.success !== false) return undefined;
  const messageId = messageOfCall(turn, last.callId);
  // What processes before this one sent, nobody here knows.
  const isOwn = last.attempts === 1 && last.intent.epoch === epoch && turn.retried?.keys[last.callId] === undefined;
  return isOwn && !connection.mayHaveSent(turn.taskId, messageId) ? undefined : messageId;
}

/** A message is named by the key of its call. */
function messageOfCall({ taskId, retried }: LoopState['turn'], callId: string): string {
  return messageIdOf(retried?.keys[callId] ?? `${taskId}:${callId}`);
}

/** Whether the turn failed because the server was asked in vain for as long as it is. */
function gaveUp({ error }: Pick<TurnOutcome, 'error'>): boolean {
  return error?.code === 'OUTCOME_UNKNOWN' || error?.code.startsWith('PROVIDER_') === true;
}
