import type { Redis } from 'ioredis';
import type { LLMResponse, Message, ToolCall } from 'millrace';
import type { FakeModel } from '../fake-model.ts';
import { result } from './stored-turn.ts';

/**
 * A durable loop by hand: one `XADD` for each of the records that the engine writes, each awaited before what it speaks of goes on, tools
 * beside each other. No fence, no lease, no check for what was written before, no time to live.
 */
export async function byHand(redis: Redis, key: string, model: FakeModel): Promise<void> {
  const messages: Message[] = [{ role: 'user', content: 'Hello' }];
  const add = (record: object) => redis.xadd(key, '*', 'r', JSON.stringify({ ...record, at: Date.now() }));
  const run = async (callId: string, call: ToolCall): Promise<Message> => {
    await add({ type: 'tool.intent', callId, attempt: 1, arguments: JSON.parse(call.function.arguments) });
    const content = await answer();
    await add({ type: 'tool.result', callId, content, success: true, durationMs: 0 });
    return { role: 'tool', toolCallId: call.id, content };
  };
  await add({ type: 'turn.started', messages });
  for (let iteration = 1; ; iteration++) {
    await add({ type: 'llm.start', iteration, attempt: 1 });
    const response = await responseOf(model, messages);
    const { toolCalls = [] } = response;
    const message: Message = { ...response.message, role: 'assistant', toolCalls };
    messages.push(message);
    const calls = toolCalls.map((call, index) => ({ callId: `${iteration}:${index}`, call }));
    await add({ type: 'llm.done', iteration, attempt: 1, message, calls });
    if (calls.length === 0) return void (await add({ type: 'turn.done', text: response.message.content }));
    messages.push(...(await Promise.all(calls.map(({ callId, call }) => run(callId, call)))));
  }
}

async function responseOf(model: FakeModel, messages: readonly Message[]): Promise<LLMResponse> {
  for await (const chunk of model(messages)) if (chunk.type === 'done') return chunk.response;
  throw new Error('The model gave no answer.');
}

async function answer(): Promise<string> {
  return result;
}
