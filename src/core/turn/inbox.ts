import type { Extension } from '../contracts/extension.ts';
import type { Message } from '../contracts/messages.ts';
import type { Command } from '../contracts/store.ts';
import type { LoopState } from '../journal/state.ts';
import { incomingMessage } from './incoming-message.ts';

/** A message that enters the history before the next model call. */
export interface Steering {
  readonly message: Message;
  /** The id of the command that brought it, where one did. */
  readonly command: string | undefined;
}

/** An answer to a question. */
export interface Reply {
  readonly questionId: string;
  readonly answer: unknown;
  /** The id of the command that brought it, where one did. */
  readonly command: string | undefined;
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

  answer(questionId: string, answer: unknown, command?: string): void {
    if (this.#post) return this.#post({ id: crypto.randomUUID(), type: 'answer', questionId, answer });
    this.#replies.push({ questionId, answer, command });
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
