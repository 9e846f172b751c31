import type { ServerCallContext } from '@a2a-js/sdk/server';
import type { Context } from '@opentelemetry/api';
import type { MonoTypeOperatorFunction } from 'rxjs';
import type { AgentResumeOptions } from '../agent/agent-options.ts';
import { invalidConfig, type Message, type StartOptions, shownValue } from '../core/contracts/index.ts';
import type { Signal } from '../core/journal/index.ts';

/** Where the turns of clients run: in this process, or on the workers of a queue. */
export interface TurnExecution {
  /** Creates a turn; resolves with its task once the journal exists. Errors: those of the store and of what runs it. */
  start(message: Message, options: ExecutionStart): Promise<{ readonly taskId: string }>;
  /** Has a turn continue that has an answer, or no owner. Any number of times. */
  resume(taskId: string, options: ExecutionOptions): Promise<void>;
  /** Resolves once the turn is over. */
  cancel(taskId: string): Promise<void>;
  /** Emits what the source, the signals of a turn that a client follows, does, and sees to it that the turn has an owner meanwhile. */
  followed(taskId: string, options: AgentResumeOptions): MonoTypeOperatorFunction<Signal>;
  /** Resumes turns without an owner; returns how many. */
  recover(): Promise<number>;
}

/** What a call gives the turn that it starts or continues. */
export interface ExecutionOptions extends Pick<StartOptions, 'authContext' | 'context'> {
  readonly call: ServerCallContext;
  readonly parentContext: Context;
}

export interface ExecutionStart extends ExecutionOptions {
  readonly taskId: string;
  readonly contextId: string;
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
  /** Called once the turn has read what it starts with. */
  readonly settle: () => void;
}

/** What a server uses of a queue whose workers run its turns: a `turnQueue` of `millrace/fleet` is one. */
export interface A2ATurnQueue {
  /** Creates the turn, then its job. Idempotent with the id of the task. */
  start(messages: readonly Message[], options: QueuedStart): Promise<{ readonly taskId: string }>;
  /** Has a worker look at a turn. Any number of times. */
  wake(taskId: string): Promise<void>;
  /** Cancels a turn wherever it is; resolves once it is over. */
  cancel(taskId: string, reason?: string): Promise<void>;
}

/** What a gateway gives to its queue for a turn that a worker shall run. */
export interface QueuedStart {
  readonly agentId: string;
  readonly taskId: string;
  readonly contextId: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** The span of the request, to which the run of the worker is linked. */
  readonly parentContext: Context;
  /** The caller's tenant, else the user; absent for callers without a name. */
  readonly tenant?: string;
}

/** Errors: `INVALID_CONFIG`. */
export function checkQueue({ queue, contextOf }: { readonly queue?: unknown; readonly contextOf?: unknown }): void {
  if (queue === undefined) return;
  if (contextOf !== undefined)
    throw invalidConfig(
      'contextOf has no effect with queue: the turns run in other processes',
      'leave it out, and give the workers turnOptions',
    );
  const isQueue =
    typeof queue === 'object' &&
    queue !== null &&
    ['start', 'wake', 'cancel'].every((name) => typeof Reflect.get(queue, name) === 'function');
  if (!isQueue) throw invalidConfig(`queue is ${shownValue(queue)}`, 'give turnQueue({ connection, store })');
}
