import type { AgentCard, Message, StreamResponse, Task } from '@a2a-js/sdk';
import { ServerCallContext, type User } from '@a2a-js/sdk/server';
import { agent, InMemoryStateStore, type TaskStateStore } from 'millrace';
import { type A2AHandler, type A2ARequestHandlerOptions, a2aRequestHandler } from 'millrace/a2a';
import { type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import type { AgentSettings, GivenTools } from 'millrace/types';
import { isTask, message, request } from './messages.ts';
import { cardAt } from './serving.ts';

export interface BenchOptions {
  readonly steps?: readonly ScriptedLLMStep[];
  readonly store?: TaskStateStore;
  readonly agent?: Partial<AgentSettings> & GivenTools;
  readonly handler?: Partial<A2ARequestHandlerOptions>;
  readonly card?: Partial<AgentCard>;
}

/** A handler over an agent with a scripted model. */
export function a2aBench({ steps = [], store = new InMemoryStateStore(), card, ...options }: BenchOptions = {}) {
  const model = scriptedLLM(steps);
  const served = agent({ id: 'ada', provider: model, taskStateStore: store, ...options.agent });
  const handler = a2aRequestHandler({ agent: served, card: { ...cardAt('http://x'), ...card }, ...options.handler });
  return { model, store, agent: served, handler };
}

export interface Caller {
  readonly user?: string;
  readonly tenant?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly extensions?: readonly string[];
}

/** The context of a call, as transports make it. */
export function call({ user, tenant, headers = {}, extensions = [] }: Caller = {}): ServerCallContext {
  const known: User | undefined = user === undefined ? undefined : { isAuthenticated: true, userName: user };
  return new ServerCallContext({
    ...(known && { user: known }),
    ...(tenant !== undefined && { tenant }),
    requestedExtensions: [...extensions],
    requestedVersion: '1.0',
    state: new Map([['headers', headers]]),
  });
}

/** Sends a message and gives the task. */
export async function send(
  handler: A2AHandler,
  sent: Message | string,
  options: Caller & Parameters<typeof request>[1] = {},
): Promise<Task> {
  const { user, tenant, headers, extensions, ...configuration } = options;
  const context = call({
    ...(user && { user }),
    ...(tenant && { tenant }),
    ...(headers && { headers }),
    ...(extensions && { extensions }),
  });
  const made = typeof sent === 'string' ? message(sent) : sent;
  const answer = await handler.sendMessage(request(made, configuration), context);
  if (!isTask(answer)) throw new Error('no task');
  return answer;
}

/** What a rejected call says: the protocol's error and its words. */
export async function refusal(work: Promise<unknown> | AsyncIterator<StreamResponse>): Promise<string> {
  const outcome = work instanceof Promise ? work : work.next();
  return outcome.then(
    () => 'no error',
    (error: unknown) => (error instanceof Error ? `${error.name}: ${error.message}` : String(error)),
  );
}
