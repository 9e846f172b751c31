import type { SendMessageRequest, TaskPushNotificationConfig, Message as WireMessage } from '@a2a-js/sdk';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import type { AgentTurnOptions } from '../agent/agent-options.ts';
import { type Command, type ErrorCode, isSuspended } from '../core/contracts/index.ts';
import { type LoopState, waitsForAnswers } from '../core/journal/index.ts';
import { recordsOfAnswers } from '../core/options/index.ts';
import { AgentLoop, incomingMessage, type Turn } from '../core/turn/index.ts';
import { contextFromCarrier } from '../observability/trace-carrier.ts';
import { commandOf, isCommandOf } from './answered-messages.ts';
import type { CallerTasks, Sent } from './caller-tasks.ts';
import { metadataForTools } from './client-tools.ts';
import { assertReadable } from './parts.ts';
import { limitReached, malformed, unsupported } from './protocol-errors.ts';
import type { PushConfigs } from './push-configs.ts';
import { type Received, receivedAnswers } from './received-answers.ts';
import { checkedMessage, keptSizeOf, keptSizeOfJson, userMessageOf } from './received-message.ts';
import { type Intake, isOneOf, reusedMessageId, startedTurn, toldTurn } from './repeated-message.ts';
import { headersOf } from './requested.ts';
import { shownContext } from './scope.ts';
import type { TurnView } from './task-snapshot.ts';

/** A message on its way, with what the call and the agent's card say of it. */
export interface Receipt {
  readonly tasks: CallerTasks;
  readonly call: ServerCallContext;
  readonly inputModes: readonly string[];
  readonly outputModes: readonly string[];
  /** Errors: PushNotificationNotSupported. */
  readonly push: () => Promise<PushConfigs>;
}

/**
 * Starts a turn with a message, or gives the message to the task that it names. One that came before changes nothing. Errors:
 * RequestMalformed for one whose id came before with other content, from the same sender.
 */
export async function receiveMessage(receipt: Receipt, params: SendMessageRequest): Promise<Sent> {
  const { tasks } = receipt;
  const message = checkedMessage(params.message, tasks.options.limits);
  assertReadable(params.configuration?.acceptedOutputModes ?? [], receipt.outputModes);
  const config = params.configuration?.taskPushNotificationConfig;
  const push = config && (await receipt.push());
  if (config) await push?.check(config);
  const bytes = keptSizeOf(message) + (config ? keptSizeOfJson(config) : 0);
  const sent = message.taskId === '' ? await start(receipt, message, bytes) : await tell(receipt, message, bytes);
  if (config && push) await register(receipt, push, { config, message, sent });
  return sent;
}

interface Registered {
  readonly config: TaskPushNotificationConfig;
  readonly message: WireMessage;
  readonly sent: Sent;
}

/** A configuration that comes again with its message is there already. One that comes with a new message was let in with it. */
async function register({ tasks, call }: Receipt, push: PushConfigs, given: Registered): Promise<void> {
  const { config, message, sent } = given;
  const task = await tasks.own(sent.taskId);
  const id = config.id || tasks.scope.configOf(message.messageId);
  const known = await push.get(task, id);
  if (known?.url === config.url) return;
  const create = () => push.create(task, { ...config, id }, call.requestedVersion);
  await (sent.since === undefined ? tasks.keep({ bytes: keptSizeOfJson(config) }, create) : create());
}

/** `bytes`: how much is to be kept of the message and what comes with it. */
async function start(receipt: Receipt, message: WireMessage, bytes: number): Promise<Sent> {
  const { scope, options } = receipt.tasks;
  const taskId = scope.taskOf(message.messageId);
  const known = await receipt.tasks.read(taskId);
  if (known && !startedTurn(known, message, intakeOf(receipt))) throw reusedMessageId();
  if (known) return { taskId, beyond: 0 };
  const metadata = metadataForTools(message, options.agent);
  const given = userMessageOf(message, receipt.inputModes);
  const contextId = scope.contextIn(message.contextId || scope.contextOf(message.messageId));
  const settle = await receipt.tasks.admit({ bytes, contextId, turn: message.contextId === '' ? 'first' : 'later' });
  const turn = options.agent.startTurn(given, {
    ...turnOptions(receipt),
    taskId,
    contextId,
    ...(metadata && { metadata }),
  });
  // A turn that waits for others of its context copies the history only then.
  turn.settled.then(settle, settle);
  await begun(receipt, turn).catch(async (error: unknown) => {
    settle();
    // Another message with this id may have come at the same time.
    const first = await receipt.tasks.read(taskId);
    throw first && !startedTurn(first, message, intakeOf(receipt)) ? reusedMessageId() : error;
  });
  return turn.taskId === taskId ? { taskId, since: 1, beyond: 0 } : { taskId: turn.taskId, beyond: 0 };
}

/** `bytes`: as of `start`. */
async function tell(receipt: Receipt, message: WireMessage, bytes: number): Promise<Sent> {
  const { tasks } = receipt;
  const { taskId, messageId, contextId } = message;
  const view = await tasks.find(taskId);
  const { state } = view;
  if (contextId !== '' && contextId !== shownContext(state.turn.contextId))
    throw malformed('message.contextId is not the context of the task; leave it out.');
  const repeats = await repeated(receipt, message, view);
  // Nothing comes of it any more where the task waits for somebody else's answer.
  if (repeats === 'start' || (repeats === 'told' && waitsForAnswers(state))) return { taskId, beyond: 0 };
  if (repeats === 'told') return continueTurn(receipt, state);
  if (state.isComplete) throw unsupported('The task is over and takes no more messages; send one without taskId.');
  const { maxHistory } = tasks.options.limits;
  if (state.history.length >= maxHistory) throw historyIsFull(maxHistory);
  const received = receivedAnswers(state, message);
  await tasks.keep({ bytes, contextId: state.turn.contextId }, () => follow(receipt, { message, state, received }));
  const told = received.rest.length > 0 && { command: commandOf(messageId, tasks.scope) };
  return { ...(await continueTurn(receipt, state)), since: state.seq, ...told };
}

/**
 * What a message repeats: the one that started the task, or one that the task received later. Errors: RequestMalformed where its id stands for
 * another message.
 */
async function repeated(receipt: Receipt, message: WireMessage, view: TurnView): Promise<'start' | 'told' | undefined> {
  const { tasks } = receipt;
  const { messageId, taskId } = message;
  const intake = intakeOf(receipt);
  const started = tasks.scope.taskOf(messageId);
  if (started === taskId) {
    if (startedTurn(view, message, intake)) return 'start';
    throw reusedMessageId();
  }
  if (await tasks.read(started)) throw reusedMessageId();
  const isOfMessage = (command: string) => isCommandOf(command, messageId, tasks.scope);
  if (!view.state.commands.some(isOfMessage)) return undefined;
  if (toldTurn(view, { isOfMessage, message }, intake)) return 'told';
  throw reusedMessageId();
}

function intakeOf({ tasks, inputModes }: Receipt): Intake {
  return { extensions: tasks.options.agent.options.extensions ?? [], inputModes };
}

function historyIsFull(max: number): Error {
  return limitReached({
    reason: 'HISTORY_LIMIT',
    message: `The task has as many messages as maxHistory allows (${max}) and takes no more; send one without taskId.`,
    metadata: { limit: 'maxHistory', max: String(max) },
  });
}

interface Followed {
  readonly message: WireMessage;
  readonly state: LoopState;
  readonly received: Received;
}

/** Other content is posted first, so that the turn has it when the answers let it continue. */
async function follow(receipt: Receipt, { message, state, received }: Followed): Promise<void> {
  const { tasks, inputModes } = receipt;
  const { store, clock, limits } = tasks.options;
  const { maxHistory } = limits;
  const { sender } = tasks.scope;
  const { taskId } = state.turn;
  const { messageId } = message;
  const { answers, rest } = received;
  recordsOfAnswers(state, answers);
  if (rest.length > 0) {
    const { extensions } = intakeOf(receipt);
    const given = userMessageOf({ ...message, parts: [...rest] }, inputModes);
    const id = commandOf(messageId, { sender });
    const command: Command = { id, type: 'steer', message: incomingMessage(extensions, given) };
    // A command that is followed adds to both, so that it counts once, whenever the turn reads it.
    const most = maxHistory - state.history.length + state.commands.length;
    const posted = await tasks.ready(() => store.post(taskId, command, { most }));
    if (!posted) throw historyIsFull(maxHistory);
    if (posted.type === 'steer' && !isOneOf(posted.message, given, { extensions })) throw reusedMessageId();
  }
  if (Object.keys(answers).length === 0) return;
  const commandId = (questionId: string) => commandOf(messageId, { questionId, sender });
  await AgentLoop.answer(taskId, { store, answers, clock, commandId });
}

/** Resumes a turn without an owner. */
async function continueTurn(receipt: Receipt, { turn, outcome, isComplete, seq }: LoopState): Promise<Sent> {
  const { taskId } = turn;
  const { agent } = receipt.tasks.options;
  if (!isComplete) await begun(receipt, agent.resume(taskId, turnOptions(receipt)), 'BUSY', 'TERMINAL');
  return { taskId, beyond: outcome && isSuspended(outcome.state) ? seq : 0 };
}

function begun({ tasks, call }: Receipt, turn: Turn, ...except: readonly ErrorCode[]): Promise<void> {
  tasks.options.onTurn?.(turn, call);
  return tasks.turns.begun(turn, ...except);
}

function turnOptions({ call, tasks }: Receipt): AgentTurnOptions & { readonly detached: true } {
  return { detached: true, parentContext: contextFromCarrier(headersOf(call)), ...tasks.auth };
}
