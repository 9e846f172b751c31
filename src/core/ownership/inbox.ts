import {
  AgentLoopError,
  asJson,
  type Command,
  checkMessages,
  type Extension,
  isPromiseLike,
  type Message,
  messageOf,
} from '../contracts/index.ts';
import {
  type LoopState,
  openQuestions,
  type TurnAnswered,
  type TurnIdentity,
  type TurnRecord,
} from '../journal/index.ts';
import { answerFlaw, type ResolvedConfig } from '../options/index.ts';

/** A message that enters the history before the next model call. */
interface Steering {
  readonly message: Message;
  /** The id of the command that brought it, where one did. */
  readonly command: string | undefined;
}

/** What brought an answer. */
interface AnswerSource {
  /** The id of the command, where one did. */
  readonly command?: string;
  /** The message, where it came in one. */
  readonly message?: Message;
}

/** An answer to a question. */
interface Reply {
  readonly questionId: string;
  readonly answer: unknown;
  readonly source: AnswerSource;
}

/** Why a turn shall suspend: the first reason that was given. */
export interface PauseRequest {
  readonly reason: string;
  /** The ids of the commands that asked, as far as commands did. */
  readonly commands: readonly string[];
}

const noExtensions: readonly Extension[] = [];

/** What a running turn was asked to do and has not done yet. The loop empties it between its steps. */
export class Inbox {
  #pause: PauseRequest | undefined;
  #steering: Steering[] = [];
  #replies: Reply[] = [];
  #listener: (() => void) | undefined;
  #wake: (() => void) | undefined;
  #post: ((command: Command) => void) | undefined;
  #last: LoopState | undefined;
  readonly #extensions: readonly Extension[];

  /** `extensions` are asked about each message; what they throw refuses the message. */
  constructor(extensions: readonly Extension[] = noExtensions) {
    this.#extensions = extensions;
  }

  /** The state before the end of the turn, which is being written: what is asked now comes too late. */
  get last(): LoopState | undefined {
    return this.#last;
  }

  close(last: LoopState): void {
    this.#last = last;
  }

  /** Set where the turn shall suspend as soon as nothing runs. */
  get pause(): PauseRequest | undefined {
    return this.#pause;
  }

  get hasReplies(): boolean {
    return this.#replies.length > 0;
  }

  get hasSteering(): boolean {
    return this.#steering.length > 0;
  }

  /** Whether the turn runs elsewhere, so that this is only a way to its owner. */
  get forwards(): boolean {
    return this.#post !== undefined;
  }

  requestPause(reason: string, command?: string): void {
    if (this.#post) this.#post({ id: crypto.randomUUID(), type: 'pause', reason });
    else this.#pause = joined(this.#pause ?? { reason, commands: [] }, command);
    this.#wake?.();
  }

  /** Takes a pause back. False where nothing was to pause here. */
  resume(): boolean {
    if (!this.#pause) return false;
    this.#pause = undefined;
    this.#wake?.();
    return true;
  }

  /** Calls `wake` when a pause is asked for or taken back, until another takes its place. */
  onPause(wake: (() => void) | undefined): void {
    this.#wake = wake;
  }

  steer(given: Message, command?: string): void {
    const message = incomingMessage(this.#extensions, given);
    if (this.#post) this.#post({ id: crypto.randomUUID(), type: 'steer', message });
    else this.#steering.push({ message, command });
  }

  answer(questionId: string, answer: unknown, source: AnswerSource = {}): void {
    if (this.#post) return this.#post({ id: crypto.randomUUID(), type: 'answer', questionId, answer });
    this.#replies.push({ questionId, answer, source });
    this.#listener?.();
  }

  /** Calls `listener` when an answer has come, until another takes its place. */
  onReply(listener: (() => void) | undefined): void {
    this.#listener = listener;
  }

  /** The turn runs here: what is asked stays here, also where it ran elsewhere before. */
  keepHere(): void {
    this.#post = undefined;
  }

  /** The turn runs elsewhere: what was asked so far, and is asked from now on, goes there as commands. */
  forwardTo(post: (command: Command) => void): void {
    this.#post = post;
    if (this.#pause) this.requestPause(this.#pause.reason);
    this.#pause = undefined;
    for (const { message } of this.takeSteering()) post({ id: crypto.randomUUID(), type: 'steer', message });
    for (const { questionId, answer } of this.#replies.splice(0)) this.answer(questionId, answer);
  }

  /** One at a time: taking one may bring another. */
  takeReply(): Reply | undefined {
    return this.#replies.shift();
  }

  takeSteering(): readonly Steering[] {
    const taken = this.#steering;
    this.#steering = [];
    return taken;
  }
}

function joined(request: PauseRequest, command: string | undefined): PauseRequest {
  return command === undefined ? request : { ...request, commands: [...request.commands, command] };
}

/** A message of the caller as the extensions let it in. Errors: `EXTENSION_FAILED` where one fails whose `onError` is `'fail'`. */
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
    const problem = `Extension "${extension.name}" failed in beforeMessage: ${messageOf(cause)}`;
    throw new AgentLoopError('EXTENSION_FAILED', problem, { cause });
  }
}

/** A running turn that can be asked for something. */
interface Questioned {
  readonly inbox: Inbox;
  readonly turn: TurnIdentity;
  readonly config: Pick<ResolvedConfig, 'logger'>;
}

/** The next answer that came to a running turn, as a record; those that fit no open question are logged and ignored. */
export function takeReply(deps: Questioned, state: LoopState): TurnAnswered | undefined {
  for (let reply = deps.inbox.takeReply(); reply; reply = deps.inbox.takeReply()) {
    const { questionId, source } = reply;
    const question = openQuestions(state).find(({ id }) => id === questionId);
    const answer = asJson(reply.answer);
    if (question && answerFlaw(question, answer) === undefined) {
      return { type: 'turn.answered', callId: question.callId, questionId, answer, ...source };
    }
    deps.config.logger.warn('answer ignored: invalid', { taskId: deps.turn.taskId, questionId });
  }
  return undefined;
}

/** The messages that the turn received meanwhile, to be added to its history. */
export function steeringRecords({ inbox }: { readonly inbox: Inbox }): readonly TurnRecord[] {
  return inbox.takeSteering().map(({ message, command }) => ({
    type: 'x.steer',
    effects: { messages: [message] },
    ...(command === undefined ? {} : { command }),
  }));
}
