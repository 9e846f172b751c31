import { runAgentLoop } from '@mariozechner/pi-agent-core';
import { createAssistantMessageEventStream, streamSimple } from '@mariozechner/pi-ai';
import { model, modelOverHttp, streamOf, textOf, tools } from './pi-model.mjs';

const convertToLlm = (messages) => messages;

function loop(config, streamFn) {
  return async (content) => {
    const prompt = { role: 'user', content, timestamp: Date.now() };
    const context = { systemPrompt: '', messages: [], tools };
    return textOf(await runAgentLoop([prompt], context, config, () => {}, undefined, streamFn));
  };
}

export function pi073(work) {
  const run = loop({ model, convertToLlm }, streamOf(work, createAssistantMessageEventStream));
  return () => run('Hello');
}

/** The same against a model server. */
export function pi073OverHttp(baseUrl) {
  return loop({ model: modelOverHttp(baseUrl), apiKey: 'none', convertToLlm }, streamSimple);
}
