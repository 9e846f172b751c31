import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { isStepCount, jsonSchema, streamText, tool } from 'ai';
import { echo, echoParameters } from '../echo-tool.ts';
import { sdkModel } from './sdk-model.mjs';

const tools = {
  echo: tool({ description: 'Says it again.', inputSchema: jsonSchema(echoParameters), execute: (args) => echo(args) }),
};

function loop(model) {
  return async (prompt) => {
    const result = streamText({ model, tools, prompt, stopWhen: isStepCount(1_000_000) });
    for await (const part of result.stream) if (part.type === 'error') throw part.error;
    return result.text;
  };
}

export function aiSdk(work) {
  const run = loop(sdkModel(work));
  return () => run('Hello');
}

/** The same against a model server. */
export function aiSdkOverHttp(baseURL) {
  return loop(createOpenAICompatible({ name: 'fake', baseURL, apiKey: 'none' })('fake'));
}
