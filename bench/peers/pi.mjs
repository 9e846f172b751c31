import { runAgentLoop } from '@mariozechner/pi-agent-core';
import { createAssistantMessageEventStream, streamSimple } from '@mariozechner/pi-ai';
import { echo, echoParameters } from '../echo-tool.ts';
import { sharedFakeModel } from '../fake-model.ts';

const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0 };
const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
const model = { id: 'fake', provider: 'fake', api: 'fake', name: 'fake', reasoning: false, input: ['text'], cost };

const tools = [
  {
    name: 'echo',
    label: 'echo',
    description: 'Says it again.',
    parameters: echoParameters,
    execute: async (_id, args) => ({ content: [{ type: 'text', text: await echo(args) }], details: undefined }),
  },
];

/** The answer of the model in the events of this library. */
async function play(chunks, to) {
  const message = { role: 'assistant', content: [], api: 'fake', provider: 'fake', model: 'fake', timestamp: 0 };
  Object.assign(message, { usage: { ...usage, cost }, stopReason: 'stop' });
  to.push({ type: 'start', partial: message });
  for await (const chunk of chunks) {
    if (chunk.type === 'text') {
      if (message.content.length === 0) message.content.push({ type: 'text', text: '' });
      message.content[0].text += chunk.text;
      to.push({ type: 'text_delta', contentIndex: 0, delta: chunk.text, partial: message });
      continue;
    }
    for (const { id, function: called } of chunk.response.toolCalls) {
      const toolCall = { type: 'toolCall', id, name: called.name, arguments: JSON.parse(called.arguments) };
      const contentIndex = message.content.push(toolCall) - 1;
      message.stopReason = 'toolUse';
      to.push({ type: 'toolcall_end', contentIndex, toolCall, partial: message });
    }
  }
  to.push({ type: 'done', reason: message.stopReason, message });
}

export function pi(work) {
  const answer = sharedFakeModel(work);
  const streamFn = (_model, { messages }) => {
    const to = createAssistantMessageEventStream();
    play(answer(messages), to).catch((error) => to.push({ type: 'error', reason: 'error', error }));
    return to;
  };
  const config = { model, convertToLlm: (messages) => messages };
  return async () => {
    const prompt = { role: 'user', content: 'Hello', timestamp: 0 };
    const context = { systemPrompt: '', messages: [], tools };
    const messages = await runAgentLoop([prompt], context, config, () => {}, undefined, streamFn);
    return messages.at(-1).content[0].text;
  };
}

/** The same against a model server. */
export function piOverHttp(baseUrl) {
  const far = {
    ...model,
    api: 'openai-completions',
    provider: 'openai',
    baseUrl,
    contextWindow: 100_000,
    maxTokens: 10_000,
  };
  const config = { model: far, apiKey: 'none', convertToLlm: (messages) => messages };
  return async (content) => {
    const context = { systemPrompt: '', messages: [], tools };
    const prompt = { role: 'user', content, timestamp: 0 };
    const messages = await runAgentLoop([prompt], context, config, () => {}, undefined, streamSimple);
    return messages.at(-1).content[0].text;
  };
}
