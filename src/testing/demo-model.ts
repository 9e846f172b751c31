import { announcement, answerText, askedBy, isFinishName } from './demo-model/answer-text.ts';
import { argumentsFor } from './demo-model/arguments-for.ts';
import { type Conversation, conversationOf } from './demo-model/conversation-of.ts';
import { fillSchema } from './demo-model/fill-schema.ts';
import { followUpFor, type Plan, plansFor } from './demo-model/plan.ts';
import type { Asked } from './demo-model/sentences-for.ts';
import { type ChatRequest, isObject, type ModelReply, type OfferedTool } from './model-server/chat-request.ts';

/**
 * A small stand-in for a language model: a pure function from a request to a reply, without any knowledge. It takes the last
 * prompt apart into questions, matches each with one of the tools offered, by their names, descriptions and parameter
 * schemas, asks for all of them at once, reads on in a file that a search found, and then answers in prose made of the
 * results. What no tool fits it says it cannot answer. A tool named `finish`, `done` or the like gets the final answer.
 *
 * `tool_choice` and `parallel_tool_calls` are followed. It remembers what the messages hold, and nothing else.
 */
export function demoModel(request: ChatRequest): ModelReply {
  const conversation = conversationOf(request.messages);
  const plans = plansFor(conversation, request.tools);
  const tools = request.tools.filter(({ name }) => !isFinishName(name));
  const answer = answerText(plans, { conversation, tools });
  const calls = chosenCalls(request, { conversation, plans, answer });
  if (calls.length === 0) return { text: answer };
  const asked = calls.filter(({ name }) => !isFinishName(name));
  const text = asked.length === 0 ? {} : { text: announcement(asked, conversation.findings.length === 0) };
  return {
    ...text,
    toolCalls: calls.map(({ name, arguments: given }) => ({ name, arguments: JSON.stringify(given) })),
  };
}

interface Reading {
  readonly conversation: Conversation;
  readonly plans: readonly Plan[];
  readonly answer: string;
}

function chosenCalls(request: ChatRequest, reading: Reading): readonly Asked[] {
  const { tools, toolChoice } = request;
  const wanted = wantedCalls(tools, reading);
  const finish = tools.find(({ name }) => isFinishName(name));
  const calls = request.parallel ? wanted : wanted.slice(0, 1);
  if (toolChoice === 'none' || reading.conversation.prompts.length === 0) return [];
  if (typeof toolChoice === 'object')
    return forced(
      tools.filter(({ name }) => name === toolChoice.name),
      wanted,
      reading,
    );
  if (calls.length > 0) return calls;
  if (toolChoice === 'required') return forced(finish === undefined ? tools : [finish], wanted, reading);
  return finish === undefined || hasFinished(reading.conversation) ? [] : forced([finish], wanted, reading);
}

/** What the questions ask for and is not known yet, each call once, and what a search suggests to read. */
function wantedCalls(tools: readonly OfferedTool[], { conversation, plans }: Reading): readonly Asked[] {
  const calls = new Map<string, Asked>();
  const add = (asked: Asked): void => {
    const key = JSON.stringify([asked.name, asked.arguments]);
    if (!calls.has(key)) calls.set(key, asked);
  };
  for (const plan of plans) {
    if (plan.type === 'call' && plan.finding === undefined && tools.includes(plan.match.tool)) add(askedBy(plan));
  }
  const followUp = followUpFor(plans, { conversation, tools });
  if (followUp !== undefined) add(askedBy(followUp));
  return [...calls.values()];
}

/** A call that has to be made: the one that is wanted anyway, else the best that the question and the answer give. */
function forced(tools: readonly OfferedTool[], wanted: readonly Asked[], reading: Reading): readonly Asked[] {
  const call = wanted.find(({ name }) => tools.some((tool) => tool.name === name));
  if (call !== undefined) return [call];
  const question = reading.plans[0]?.question;
  const tool = tools.find(({ name }) => question?.text.includes(name)) ?? tools[0];
  if (tool === undefined) return [];
  const outcomes = reading.conversation.findings.map(({ outcome }) => outcome);
  const made = fillSchema(tool.parameters, { text: reading.answer, outcomes });
  const named =
    question === undefined || isFinishName(tool.name) ? {} : argumentsFor(question, tool.parameters).arguments;
  return [
    { kind: 'other', name: tool.name, arguments: { ...(isObject(made) && made), ...named }, question: undefined },
  ];
}

/** Whether the answer was handed in: a refused one is handed in once more. */
function hasFinished({ findings }: Conversation): boolean {
  const finishes = findings.filter(({ name }) => isFinishName(name));
  return finishes.length > 1 || finishes.some(({ outcome }) => outcome.error === undefined);
}
