import { isDeepStrictEqual } from 'node:util';
import type { Part, SendMessageRequest, TaskPushNotificationConfig, Message as WireMessage } from '@a2a-js/sdk';
import type { A2AError } from '@a2a-js/sdk/errors';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import {
  asJson,
  type Command,
  type Extension,
  innermostQuestion,
  isObject,
  isSuspended,
  type Message,
} from '../core/contracts/index.ts';
import {
  type Answers,
  type LoopState,
  openQuestions,
  type Question,
  recordsOfAnswers,
  waitsForAnswers,
} from '../core/journal/index.ts';
import { incomingMessage } from '../core/ownership/index.ts';
import { markOpening } from '../core/turn/index.ts';
import { contextFromCarrier } from '../observability/trace-carrier.ts';
import { AgentLoop } from '../tasks/agent-loop.ts';
import type { CallerTasks, Sent } from './caller-tasks.ts';
import { headersOf, metadataForTools } from './extensions.ts';
import type { PushConfigs } from './kept-in-stores.ts';
import { limitReached, malformed, unsupported } from './protocol-errors.ts';
import {
  assertReadable,
  checkedMessage,
  commandOf,
  isCommandOf,
  keptSizeOf,
  keptSizeOfJson,
  userMessageOf,
} from './received-message.ts';
import { shownContext } from './scope.ts';
import type { TurnView } from './task-snapshot.ts';
import type { ExecutionOptions } from './turn-execution.ts';

/** A message on its way, with what the call and the agent's card say of it. */
interface Receipt {
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
  const given = params.configuration?.taskPushNotificationConfig;
  const push = given && (await receipt.push());
  const config = given && { ...given, id: given.id || tasks.scope.configOf(message.messageId) };
  if (config) await push?.check(config, message.taskId === '' ? undefined : await tasks.own(message.taskId));
  const bytes = keptSizeOf(message) + (config ? keptSizeOfJson(config) : 0);
  const sent = message.taskId === '' ? await start(receipt, message, bytes) : await tell(receipt, message, bytes);
  if (config && push) await register(receipt, push, { config, sent });
  return sent;
}

interface Registered {
  readonly config: TaskPushNotificationConfig;
  readonly sent: Sent;
}

/** A configuration that comes again with its message is there already. One that comes with a new message was let in with it. */
async function register({ tasks, call }: Receipt, push: PushConfigs, { config, sent }: Registered): Promise<void> {
  const task = await tasks.own(sent.taskId);
  const known = await push.get(task, config.id);
  if (known?.url === config.url) return;
  const create = () => push.create(task, config, call.requestedVersion);
  await (sent.since === undefined ? tasks.keep({ bytes: keptSizeOfJson(config) }, create) : create());
}

/** `bytes`: how much is to be kept of the message and what comes with it. */
async function start(receipt: Receipt, message: WireMessage, bytes: number): Promise<Sent> {
  const { scope } = receipt.tasks;
  const taskId = scope.taskOf(message.messageId);
  const known = await receipt.tasks.read(taskId);
  if (known && !startedTurn(known, message, intakeOf(receipt))) throw reusedMessageId(message.messageId);
  if (known) return { taskId, beyond: 0 };
  const metadata = metadataForTools(message, receipt.tasks.options.agent);
  const given = userMessageOf(message, receipt.inputModes);
  const contextId = scope.contextIn(message.contextId || scope.contextOf(message.messageId));
  const settle = await receipt.tasks.admit({ bytes, contextId, turn: message.contextId === '' ? 'first' : 'later' });
  const options = { ...executionOptions(receipt), taskId, contextId, metadata, settle };
  const turn = await receipt.tasks.turns.start(given, options).catch(async (error: unknown) => {
    // Another message with this id may have come at the same time.
    const first = await receipt.tasks.read(taskId);
    throw first && !startedTurn(first, message, intakeOf(receipt)) ? reusedMessageId(message.messageId) : error;
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
  if (repeats === 'start' || (repeats === 'received' && waitsForAnswers(state))) return { taskId, beyond: 0 };
  if (repeats === 'received') return continueTurn(receipt, state);
  if (state.isComplete) throw unsupported('The task is over and takes no more messages; send one without taskId.');
  const { maxHistory } = tasks.options.limits;
  if (state.history.length >= maxHistory) throw historyIsFull(maxHistory);
  const received = receivedAnswers(state, message);
  // An answer is kept by itself and in its message.
  const times = Object.keys(received.answers).length > 0 ? 2 : 1;
  const toKeep = { bytes: times * bytes, contextId: state.turn.contextId };
  const steered = received.rest.length > 0 && { command: commandOf(messageId, tasks.scope) };
  // Once it is answered, a recovery scan would resume it without the values of this call.
  const opened = markOpening(tasks.options.store, taskId);
  try {
    await tasks.keep(toKeep, () => follow(receipt, { message, state, received }));
    return { ...(await continueTurn(receipt, state)), since: state.seq, ...steered };
  } finally {
    opened();
  }
}

/**
 * What a message repeats: the one that started the task, or one that the task received later. Errors: RequestMalformed where its id stands for
 * another message.
 */
async function repeated(
  receipt: Receipt,
  message: WireMessage,
  view: TurnView,
): Promise<'start' | 'received' | undefined> {
  const { tasks } = receipt;
  const { messageId, taskId } = message;
  const intake = intakeOf(receipt);
  const started = tasks.scope.taskOf(messageId);
  if (started === taskId) {
    if (startedTurn(view, message, intake)) return 'start';
    throw reusedMessageId(messageId);
  }
  if (await tasks.read(started)) throw reusedMessageId(messageId);
  const isOfMessage = (command: string) => isCommandOf(command, messageId, tasks.scope);
  if (!view.state.commands.some(isOfMessage)) return undefined;
  if (!hasReceived(view, { isOfMessage, message }, intake)) throw reusedMessageId(messageId);
  return answersOpenQuestions(view.state, message) ? undefined : 'received';
}

/** Whether a message that came before has answers that were not recorded then: its receiver died between two of them. */
function answersOpenQuestions(state: LoopState, { parts }: WireMessage): boolean {
  const { answers = {} } = namedAnswers(parts) ?? {};
  return openQuestions(state).some(({ id }) => Object.hasOwn(answers, id));
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
  const { extensions } = intakeOf(receipt);
  if (rest.length > 0) {
    const given = userMessageOf({ ...message, parts: [...rest] }, inputModes);
    const id = commandOf(messageId, { sender });
    const command: Command = { id, type: 'steer', message: incomingMessage(extensions, given) };
    // A command that is followed adds to both, so that it counts once, whenever the turn reads it.
    const most = maxHistory - state.history.length + state.commands.length;
    const posted = await tasks.ready(() => store.post(taskId, command, { most }));
    if (!posted) throw historyIsFull(maxHistory);
    if (posted.type === 'steer' && !isOneOf(posted.message, given, { extensions })) throw reusedMessageId(messageId);
  }
  if (Object.keys(answers).length === 0) return;
  const commandId = (questionId: string) => commandOf(messageId, { questionId, sender });
  const whole = incomingMessage(extensions, userMessageOf(message, inputModes));
  await AgentLoop.answer(taskId, { store, answers, clock, commandId, message: whole });
}

/** Resumes a turn without an owner. */
async function continueTurn(receipt: Receipt, { turn, outcome, isComplete, seq }: LoopState): Promise<Sent> {
  const { taskId } = turn;
  if (!isComplete) await receipt.tasks.turns.resume(taskId, executionOptions(receipt));
  return { taskId, beyond: outcome && isSuspended(outcome.state) ? seq : 0 };
}

function executionOptions({ call, tasks }: Receipt): ExecutionOptions {
  return { call, parentContext: contextFromCarrier(headersOf(call)), ...tasks.auth };
}

/** The content of a message to a task: answers to its questions, and other content for the model. */
interface Received {
  readonly answers: Answers;
  /** The parts that answer nothing. */
  readonly rest: readonly Part[];
}

/**
 * Finds the answers in a message: data parts `{ answers: { [question id]: … } }`; where one question is open, a data part is its answer as
 * it stands, and so is text for a question that takes any answer. Errors: RequestMalformed, naming what is asked, where questions are
 * open and nothing answers one.
 */
function receivedAnswers(state: LoopState, { parts }: WireMessage): Received {
  const open = openQuestions(state);
  const named = namedAnswers(parts);
  if (open.length === 0 || (named && Object.keys(named.answers).length > 0))
    return named ?? { answers: {}, rest: parts };
  const [only] = open;
  if (only && open.length === 1 && !named) {
    const { kind } = innermostQuestion(only);
    const answer = unnamedAnswer(parts, { mayBeText: kind === 'input' || kind === 'auth' });
    if (answer) return { answers: { [only.id]: answer.value }, rest: answer.rest };
  }
  if (state.outcome) throw malformed(`The task waits for answers: ${open.map(formOf).join('; ')}.`);
  return named ?? { answers: {}, rest: parts };
}

/** What data parts `{ answers: … }` answer; `undefined` where there is no such part. */
function namedAnswers(parts: readonly Part[]): Received | undefined {
  const named = parts.flatMap((part) => answersIn(part) ?? []);
  if (named.length === 0) return undefined;
  return { answers: Object.assign({}, ...named), rest: parts.filter((part) => answersIn(part) === undefined) };
}

function answersIn({ content }: Part): Answers | undefined {
  if (content?.$case !== 'data') return undefined;
  const data: unknown = content.value;
  if (typeof data !== 'object' || data === null || !('answers' in data)) return undefined;
  const { answers } = data;
  return isObject(answers) ? { ...answers } : undefined;
}

/** The answer to the only question, as far as the parts have one: the first data part, else the texts. */
function unnamedAnswer(
  parts: readonly Part[],
  { mayBeText }: { readonly mayBeText: boolean },
): { readonly value: unknown; readonly rest: readonly Part[] } | undefined {
  const data = parts.find(({ content }) => content?.$case === 'data');
  if (data?.content) return { value: data.content.value, rest: parts.filter((part) => part !== data) };
  const texts = parts.flatMap(({ content }) => (content?.$case === 'text' ? [content.value] : []));
  if (!mayBeText || texts.length === 0) return undefined;
  return { value: texts.join('\n'), rest: parts.filter(({ content }) => content?.$case !== 'text') };
}

/** How a question is answered. */
function formOf(question: Question): string {
  const { id, toolName } = question;
  const { kind } = innermostQuestion(question);
  return `"${id}" (${toolName}) with a data part { "answers": { "${id}": ${shape(kind)} } }`;
}

function shape(kind: Question['kind']): string {
  switch (kind) {
    case 'approval':
      return '{ "approved": true }';
    case 'client-tool':
      return '{ "result": … }';
    case 'in-doubt':
      return '{ "outcome": "applied", "content": "…" }';
    case 'input':
    case 'auth':
      return '…';
  }
}

/** How messages become those of a journal. */
interface Intake {
  readonly extensions: readonly Extension[];
  readonly inputModes: readonly string[];
}

/** For a message id that stands for another message. */
function reusedMessageId(messageId: string): A2AError {
  return malformed(
    `messageId "${messageId}" was used for another message; use a new id for each new message, and repeat a message unchanged.`,
  );
}

/** Whether the message that started a turn is this one. */
function startedTurn({ records, state }: TurnView, message: WireMessage, intake: Intake): boolean {
  const [first] = records;
  if (first?.type !== 'turn.started') return false;
  const { contextId } = message;
  if (contextId !== '' && contextId !== shownContext(state.turn.contextId)) return false;
  const found = first.messages.find((each) => each.role === 'user' && each.id === message.messageId);
  return found !== undefined && isSame(found, message, intake);
}

/** What a turn recorded of a message that it received. */
interface RecordedMessage {
  /** Whether these are commands of the message. */
  readonly isOfMessage: (command: string) => boolean;
  readonly message: WireMessage;
}

/** Whether what a turn recorded of a message is all that this one says. Older journals have its answers only, and what it says besides. */
function hasReceived({ records, state }: TurnView, { isOfMessage, message }: RecordedMessage, intake: Intake): boolean {
  const answered = records.flatMap((record) =>
    record.type === 'turn.answered' && isOfMessage(record.command ?? '') ? [record] : [],
  );
  const whole = answered.find((record) => record.message)?.message;
  if (whole) return isSame(whole, message, intake);
  const recorded = answered.map(({ questionId }) => questionId);
  const steered = records.flatMap((record) =>
    record.type === 'x.steer' && isOfMessage(record.command ?? '') ? (record.effects?.messages ?? []) : [],
  );
  const { answers, rest } = repeatedAnswers(recorded, message.parts);
  const isGiven = ([id, value]: readonly [string, unknown]) =>
    state.answers.some(({ question, answer }) => question.id === id && isSameJson(answer, value));
  if (!Object.entries(answers).every(isGiven) || !recorded.every((id) => Object.hasOwn(answers, id))) return false;
  const [steering, ...more] = steered;
  if (rest.length === 0 || steering === undefined) return rest.length === 0 && steering === undefined;
  return more.length === 0 && isSame(steering, { ...message, parts: [...rest] }, intake);
}

/** The answers in a message whose question is not open any more: a part or texts that name none answer what they answered before. */
function repeatedAnswers(recorded: readonly string[], parts: readonly Part[]): Received {
  const named = namedAnswers(parts);
  const [only] = recorded;
  if (named || only === undefined || recorded.length > 1) return named ?? { answers: {}, rest: parts };
  const answer = unnamedAnswer(parts, { mayBeText: true });
  return answer ? { answers: { [only]: answer.value }, rest: answer.rest } : { answers: {}, rest: parts };
}

/** Whether a message of a journal is one of a client. */
function isSame(found: Message, message: WireMessage, intake: Intake): boolean {
  const raw = userMessageOf(message, intake.inputModes);
  return isOneOf(found, raw, intake);
}

/** Extensions may change a message where it is received, and again where its turn takes it in. */
function isOneOf(found: Message, raw: Message, { extensions }: Pick<Intake, 'extensions'>): boolean {
  const once = incomingMessage(extensions, raw);
  return [once, incomingMessage(extensions, once)].some((each) => isSameJson(each, found));
}

function isSameJson(one: unknown, other: unknown): boolean {
  return isDeepStrictEqual(asJson(one), asJson(other));
}
