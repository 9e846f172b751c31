import { setTimeout as sleep } from 'node:timers/promises';
import type { LLMCallParams, LLMChunk, LLMProvider, LLMResponse, Usage } from 'millrace';
import { Observable, type Subscription } from 'rxjs';
import type { Life } from './life.ts';
import { callIdAt, earlierIn, finalText, type Plan, planOf, seedIn, since, toldIn } from './plan.ts';

/** Quick and slow by turns: while it is at it, a process can die before the record of the call's start is durable, and behind it. */
function thinkingMs(params: LLMCallParams): number {
  return params.messages.length % 2 === 0 ? 2 : 20;
}

/** How many messages of an earlier turn, and how many steering messages, a model reads. */
export interface Heard {
  readonly earlier: number;
  readonly told: number;
}

/** Told at each call: of which turn, which of its iterations, what it reads beside them, and the request. */
export type OnModelCall = (seed: number, iteration: number, heard: Heard, request?: Subscription) => void;

/** A model whose answer is a function of the history, so that any process can go on with a turn. */
export function plannedModel(life: Life, onCall: OnModelCall, planFor: (seed: number) => Plan = planOf): LLMProvider {
  const answerTo = (params: LLMCallParams, request?: Subscription) =>
    answerOf(params, planFor, (seed, iteration, heard) => onCall(seed, iteration, heard, request));
  const stream = (params: LLMCallParams) =>
    new Observable<LLMChunk>((subscriber) => {
      const response = answerTo(params, subscriber);
      const say = async () => {
        await life.reach('model:called');
        await sleep(thinkingMs(params));
        subscriber.next({ type: 'text', text: String(response.message.content).slice(0, 4) });
        await life.reach('model:streaming');
        subscriber.next({ type: 'text', text: String(response.message.content).slice(4) });
        await life.reach('model:answered');
        subscriber.next({ type: 'done', response });
        subscriber.complete();
      };
      void say();
    });
  return { stream, call: async (params) => answerTo(params) };
}

function answerOf({ messages }: LLMCallParams, planFor: (seed: number) => Plan, onCall: OnModelCall): LLMResponse {
  const seed = seedIn(messages);
  const iteration = since(messages).filter(({ role }) => role === 'assistant').length + 1;
  onCall(seed, iteration, { earlier: earlierIn(messages), told: toldIn(messages) });
  const calls = planFor(seed)[iteration - 1];
  const usage = usageOf(seed, iteration);
  if (calls === undefined || calls.length === 0)
    return { message: { role: 'assistant', content: finalText(messages) }, usage };
  const toolCalls = calls.map((call, index) => ({
    id: callIdAt(index),
    type: 'function' as const,
    function: { name: call.tool, arguments: call.arguments },
  }));
  return { message: { role: 'assistant', content: `Step ${iteration}.`, toolCalls }, usage };
}

/** Differs from call to call, so that one that is counted twice, or not at all, changes the sum. */
function usageOf(seed: number, iteration: number): Usage {
  const promptTokens = 100 + (seed % 89);
  return { promptTokens, completionTokens: iteration, totalTokens: promptTokens + iteration };
}
