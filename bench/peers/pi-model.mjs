import { echo, echoParameters } from '../echo-tool.ts';
import { sharedFakeModel } from '../fake-model.ts';

const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0 };
const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };

export const model = {
  id: 'fake',
  provider: 'fake',
  api: 'fake',
  name: 'fake',
  reasoning: false,
  input: ['text'],
  cost,
};

export function modelOverHttp(baseUrl) {
  const far = { api: 'openai-completions', provider: 'openai', baseUrl, contextWindow: 100_000, maxTokens: 10_000 };
  return { ...model, ...far };
}

export const tools = [
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
  const message = { role: 'assistant', content: [], api: 'fake', provider: 'fake', model: 'fake' };
  Object.assign(message, { usage: { ...usage, cost }, stopReason: 'stop', timestamp: Date.now() });
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

/** What both versions of the library ask for an answer; `createStream` makes the stream of one. */
export function streamOf(work, createStream) {
  const answer = sharedFakeModel(work);
  return (_model, { messages }) => {
    const to = createStream();
    play(answer(messages), to).catch((error) => to.push({ type: 'error', reason: 'error', error }));
    return to;
  };
}

export const textOf = (messages) => messages.at(-1).content[0].text;
