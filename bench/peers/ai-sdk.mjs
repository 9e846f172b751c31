import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { jsonSchema, stepCountIs, streamText, tool } from 'ai';
import { echo, echoParameters } from '../echo-tool.ts';
import { sharedFakeModel } from '../fake-model.ts';

const none = { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 };
const usage = { inputTokens: none, outputTokens: { total: 0, text: 0, reasoning: 0 } };
const tools = {
  echo: tool({ description: 'Says it again.', inputSchema: jsonSchema(echoParameters), execute: (args) => echo(args) }),
};

/** The answer of the model in the parts of this library. */
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

export function aiSdk(work) {
  const answer = sharedFakeModel(work);
  const model = {
    specificationVersion: 'v3',
    provider: 'fake',
    modelId: 'fake',
    supportedUrls: {},
    doStream: async ({ prompt }) => ({ stream: ReadableStream.from(play(answer(prompt))) }),
  };
  return async () => {
    const result = streamText({ model, tools, prompt: 'Hello', stopWhen: stepCountIs(1_000_000) });
    for await (const part of result.fullStream) if (part.type === 'error') throw part.error;
    return result.text;
  };
}

/** The same against a model server. */
export function aiSdkOverHttp(baseURL) {
  const model = createOpenAICompatible({ name: 'fake', baseURL, apiKey: 'none' })('fake');
  return async (prompt) => {
    const result = streamText({ model, tools, prompt, stopWhen: stepCountIs(1_000_000) });
    for await (const part of result.fullStream) if (part.type === 'error') throw part.error;
    return result.text;
  };
}
