import { setTimeout as sleep } from 'node:timers/promises';
import { Observable } from 'rxjs';
import type { LLMCallParams, LLMChunk, LLMProvider, LLMResponse } from '../../../src/providers/interfaces.ts';
import type { Life } from './life.ts';
import { finalText, planOf, seedIn } from './plan.ts';

/** Quick and slow by turns: while it is at it, a process can die before the record of the call's start is durable, and behind it. */
function thinkingMs(params: LLMCallParams): number {
  return params.messages.length % 2 === 0 ? 2 : 20;
}

/** Told at each call: of which turn, and which of its iterations. */
export type OnModelCall = (seed: number, iteration: number) => void;

/** A model whose answer is a function of the history, so that any process can go on with a turn. */
export function plannedModel(life: Life, onCall: OnModelCall): LLMProvider {
  const stream = (params: LLMCallParams) =>
    new Observable<LLMChunk>((subscriber) => {
      const response = answerTo(params, onCall);
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
  return { stream, call: async (params) => answerTo(params, onCall) };
}

function answerTo({ messages }: LLMCallParams, onCall: OnModelCall): LLMResponse {
  const seed = seedIn(messages);
  const iteration = messages.filter(({ role }) => role === 'assistant').length + 1;
  onCall(seed, iteration);
  const calls = planOf(seed)[iteration - 1];
  if (calls === undefined) return { message: { role: 'assistant', content: finalText(messages) } };
  const toolCalls = calls.map((call, index) => ({
    // Vendors repeat ids between responses, and some within one.
    id: `call-${index % 3}`,
    type: 'function' as const,
    function: { name: call.tool, arguments: call.arguments },
  }));
  return { message: { role: 'assistant', content: `Step ${iteration}.`, toolCalls } };
}
