import { sharedFakeModel } from '../fake-model.ts';

const none = { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 };
const usage = { inputTokens: none, outputTokens: { total: 0, text: 0, reasoning: 0 } };

/** The answer of the model in the parts of the AI SDK. */
async function* play(chunks) {
  yield { type: 'stream-start', warnings: [] };
  yield { type: 'text-start', id: '0' };
  for await (const chunk of chunks) {
    if (chunk.type === 'text') {
      yield { type: 'text-delta', id: '0', delta: chunk.text };
      continue;
    }
    yield { type: 'text-end', id: '0' };
    const { toolCalls } = chunk.response;
    for (const { id, function: called } of toolCalls) {
      yield { type: 'tool-call', toolCallId: id, toolName: called.name, input: called.arguments };
    }
    const unified = toolCalls.length > 0 ? 'tool-calls' : 'stop';
    yield { type: 'finish', usage, finishReason: { unified, raw: unified } };
  }
}

/** A language model of the AI SDK, which Mastra takes as well. */
export function sdkModel(work) {
  const answer = sharedFakeModel(work);
  return {
    specificationVersion: 'v4',
    provider: 'fake',
    modelId: 'fake',
    supportedUrls: {},
    doStream: async ({ prompt }) => ({ stream: ReadableStream.from(play(answer(prompt))) }),
  };
}
