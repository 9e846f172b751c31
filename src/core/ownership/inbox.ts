import {
  AgentLoopError,
  type Command,
  checkMessages,
  type Extension,
  givenJson,
  isPromiseLike,
  type Logger,
  type Message,
  reasonOf,
} from '../contracts/index.ts';
import { answerFlaw, type LoopState, openQuestions, type TurnAnswered, type TurnRecord } from '../journal/index.ts';
import { AbortScope } from '../streams/index.ts';

/** A message that enters the history before the next model call. */
export interface Steering {
  readonly message: Message;
  /** The id of the command that delivered it, if any; set once it is forwarded. */
  command: string | undefined;
}

/** How an answer arrived. */
interface AnswerSource {
  /** The id of the command that delivered it, if any. */
  readonly command?: string;
  /** The message that contained it, if any. */
  readonly message?: Message;
}

/** An answer to a question. */
interface Reply {
  readonly questionId: string;
  readonly answer: unknown;
  readonly source: AnswerSource;
}

/** A request to suspend the turn; `reason` is that of the first request. */
export interface PauseRequest {
  readonly reason: string;
  /** The ids of the commands that requested it. */
  readonly commands: readonly string[];
}

const noExtensions: readonly Extension[] = [];

/** What is asked of a running turn: to stop, and a pause, steering messages and answers, which the loop takes between its steps. */
export class Inbox {
  /** Aborted when the turn is cancelled, and with `LEFT` when this process loses it. */
  readonly scope: AbortScope = new AbortScope();
  /** Aborted when the process shuts down and releases the turn to another. */
  readonly drain: AbortScope = new AbortScope();
  #pause: PauseRequest | undefined;
  #steering: Steering[] = [];
  #replies: Reply[] = [];
  #listener: (() => void) | undefined;
  #wake: (() => void) | undefined;
  #post: ((command: Command) => void) | undefined;
  #last: LoopState | undefined;
  /** The loop that takes the messages, once it runs here. */
  reader: { readonly isAtLastCall: boolean } | undefined;
  readonly #extensions: readonly Extension[];

  /** Each message passes the `extensions`; an extension that throws refuses it. */
  constructor(extensions: readonly Extension[] = noExtensions) {
    this.#extensions = extensions;
  }

  /** Set once the end of the turn or its suspension is being written: the last state that this run writes. Later requests have no effect. */
  get last(): LoopState | undefined {
    return this.#last;
  }

  close(last: LoopState): void {
    this.#last = last;
  }

  /** Set if the turn is to suspend as soon as nothing runs. */
  get pause(): PauseRequest | undefined {
    return this.#pause;
  }

  get hasReplies(): boolean {
    return this.#replies.length > 0;
  }

  get hasSteering(): boolean {
    return this.#steering.length > 0;
  }

  /** Whether another process runs the turn, so that requests are forwarded to it. */
  get forwards(): boolean {
    return this.#post !== undefined;
  }

  requestPause(reason: string, command?: string): void {
    if (this.#post) this.#post({ id: crypto.randomUUID(), type: 'pause', reason });
    else this.#pause = joined(this.#pause ?? { reason, commands: [] }, command);
    this.#wake?.();
  }

  /** Revokes a pause. Returns false if none was requested here. */
  resume(): boolean {
    if (!this.#pause) return false;
    this.#pause = undefined;
    this.#wake?.();
    return true;
  }

  /** Calls `wake` when a pause is requested or revoked. Replaces the previous callback. */
  onPause(wake: (() => void) | undefined): void {
    this.#wake = wake;
  }

  steer(given: Message, command?: string): Steering {
    const steering = { message: incomingMessage(this.#extensions, given), command };
    if (this.#post) forward(steering, this.#post);
    else this.#steering.push(steering);
    return steering;
  }

  answer(questionId: string, answer: unknown, source: AnswerSource = {}): void {
    if (this.#post) return this.#post({ id: crypto.randomUUID(), type: 'answer', questionId, answer });
    this.#replies.push({ questionId, answer, source });
    this.#listener?.();
  }

  /** Calls `listener` when an answer arrives. Replaces the previous listener. */
  onReply(listener: (() => void) | undefined): void {
    this.#listener = listener;
  }

  /** The turn runs in this process from now on: stops forwarding. */
  keepHere(): void {
    this.#post = undefined;
  }

  /** Another process runs the turn: posts the pending requests, and all later ones, as commands. */
  forwardTo(post: (command: Command) => void): void {
    this.#post = post;
    if (this.#pause) this.requestPause(this.#pause.reason);
    this.#pause = undefined;
    for (const steering of this.takeSteering()) forward(steering, post);
    for (const { questionId, answer } of this.#replies.splice(0)) this.answer(questionId, answer);
  }

  /** Returns one answer per call: applying it may add another. */
  takeReply(): Reply | undefined {
    return this.#replies.shift();
  }

  takeSteering(): readonly Steering[] {
    const taken = this.#steering;
    this.#steering = [];
    return taken;
  }
}

function forward(steering: Steering, post: (command: Command) => void): void {
  const id = crypto.randomUUID();
  steering.command = id;
  post({ id, type: 'steer', message: steering.message });
}

function joined(request: PauseRequest, command: string | undefined): PauseRequest {
  return command === undefined ? request : { ...request, commands: [...request.commands, command] };
}

/** Returns the caller's message after the extensions' `beforeMessage`. Errors: `EXTENSION_FAILED` if one with `onError: 'fail'` throws. */
export function incomingMessage(extensions: readonly Extension[], message: Message): Message {
  return extensions.reduce((before, extension) => letIn(extension, before), message);
}

function letIn(extension: Extension, message: Message): Message {
  try {
    const changed = extension.beforeMessage?.(message) ?? message;
    if (isPromiseLike(changed)) throw new TypeError('it answered with a promise; it has to answer at once');
    checkMessages([changed]);
    return changed;
  } catch (cause) {
    if (extension.onError === 'continue') return message;
    const problem = `Extension "${extension.name}" failed in beforeMessage: ${reasonOf(cause)}`;
    throw new AgentLoopError('EXTENSION_FAILED', problem, { cause });
  }
}

/** Returns the record of the next valid answer; answers that match no open question, or are invalid for it, are logged and dropped. */
export function takeReply(inbox: Inbox, state: LoopState, logger: Logger): TurnAnswered | undefined {
  for (let reply = inbox.takeReply(); reply; reply = inbox.takeReply()) {
    const { questionId, source } = reply;
    const question = openQuestions(state).find(({ id }) => id === questionId);
    const answer = givenJson(reply.answer);
    if (question && answerFlaw(question, answer) === undefined) {
      return { type: 'turn.answered', callId: question.callId, questionId, answer, ...source };
    }
    logger.warn('answer ignored: invalid', { taskId: state.turn.taskId, questionId });
  }
  return undefined;
}

/** Returns the records that add the received steering messages to the history. `late`: the turn ends without answering them. */
export function steeringRecords(inbox: Inbox, late = false): readonly TurnRecord[] {
  return inbox.takeSteering().map(({ message, command }) => ({
    type: 'x.steer',
    effects: { messages: [message], ...(late && { late }) },
    ...(command === undefined ? {} : { command }),
  }));
}

/** The records of a turn's end, whatever it is: steering messages that arrived too late for an answer still enter the history. */
export function endRecords(inbox: Inbox, last: TurnRecord): readonly TurnRecord[] {
  return [...steeringRecords(inbox, true), last];
}
