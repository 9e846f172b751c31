import { Agent, runAgentLoop } from '@earendil-works/pi-agent-core';
import { createAssistantMessageEventStream } from '@earendil-works/pi-ai';
import { streamSimple } from '@earendil-works/pi-ai/api/openai-completions';
import { model, modelOverHttp, streamOf, textOf, tools } from './pi-model.mjs';

const convertToLlm = (messages) => messages;

function loop(config, streamFn) {
  return async (content) => {
    const prompt = { role: 'user', content, timestamp: Date.now() };
    return textOf(await runAgentLoop([prompt], { messages: [], tools }, config, () => {}, undefined, streamFn));
  };
}

export function pi(work) {
  const run = loop({ model, convertToLlm }, streamOf(work, createAssistantMessageEventStream));
  return () => run('Hello');
}

/** The class around that loop, which keeps the conversation. */
export function piAgent(work) {
  const streamFn = streamOf(work, createAssistantMessageEventStream);
  return async () => {
    const agent = new Agent({ initialState: { model, tools }, streamFn });
    agent.subscribe(() => {});
    await agent.prompt('Hello');
    return textOf(agent.state.messages);
  };
}

/** The same against a model server. */
export function piOverHttp(baseUrl) {
  return loop({ model: modelOverHttp(baseUrl), apiKey: 'none', convertToLlm }, streamSimple);
}
