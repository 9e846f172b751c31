import type { LLMResponse, Message } from 'millrace';
import { echo } from './echo-tool.ts';
import type { FakeModel } from './fake-model.ts';

/** The first baseline, an agent loop by hand: no validation, no signals, no events, no failure handling. */
export async function bare(model: FakeModel): Promise<string> {
  const messages: Message[] = [{ role: 'user', content: 'Hello' }];
  for (;;) {
    let text = '';
    let response: LLMResponse | undefined;
    for await (const chunk of model(messages)) {
      if (chunk.type === 'text') text += chunk.text;
      else if (chunk.type === 'done') response = chunk.response;
    }
    const toolCalls = response?.toolCalls ?? [];
    messages.push({ role: 'assistant', content: text, toolCalls });
    if (toolCalls.length === 0) return text;
    const results = await Promise.all(
      toolCalls.map(async (call): Promise<Message> => {
        const content = await echo(JSON.parse(call.function.arguments));
        return { role: 'tool', toolCallId: call.id, content };
      }),
    );
    messages.push(...results);
  }
}
