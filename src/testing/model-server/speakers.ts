import { schemaDialects, schemaFlaws } from '../../providers/fit-schema.ts';
import { type ProfileName, profileOf, type RequestRules } from '../../providers/profiles.ts';
import { requestFlaws } from '../../providers/request-flaws.ts';
import { demoModel } from '../demo-model.ts';
import { chatForm } from './chat-answer.ts';
import { ApiError, chatRequestOf, type ModelReply } from './chat-request.ts';
import { chatWire } from './chat-wire.ts';
import { geminiWire } from './gemini-wire.ts';
import { GivenState } from './given-state.ts';
import { messagesWire } from './messages-wire.ts';
import { answerOf, cutReply, type ModelAnswer } from './model-answer.ts';
import { responsesWire } from './responses-wire.ts';
import type { Asked, ReadContext, Speaker, Wire, WireFlaw, WireRequest, WireSchema } from './wire.ts';

/** OpenAI's chat completions without the rules of a vendor. */
export function openSpeaker(): Speaker {
  return {
    base: '/v1',
    form: chatForm({ reasoning: 'reasoning_content' }),
    route: (path) => (/^(?:\/v1)?\/chat\/completions$/.test(path) ? {} : undefined),
    ask(body) {
      const request = chatRequestOf(body);
      return {
        request,
        demo: () => cutReply(demoModel(request), request.maxTokens),
        answer: (reply, model) => answerOf(request, reply, { model }),
      };
    },
  };
}

/** The wires of profiles that do not speak chat completions. */
const ownWires: Partial<Readonly<Record<ProfileName, Wire>>> = {
  'openai-responses': responsesWire,
  anthropic: messagesWire,
  google: geminiWire,
  vertex: geminiWire,
};

/**
 * The wire of a profile and its rules: refuses what its vendor refuses, and wants back what it gave for itself. With a model, any other
 * is unknown to it.
 */
export function strictSpeaker(profile: ProfileName, onlyModel: string | undefined): Speaker {
  const wire = ownWires[profile] ?? chatWire(profile);
  const given = new GivenState();
  return {
    base: wire.base,
    form: wire.form(given),
    route: (path) => wire.route(path),
    ask(body, route) {
      const named = route.model ?? body['model'];
      const model = typeof named === 'string' ? named : '';
      if (model === '') throw new ApiError(400, 'The request names no model.', 'model');
      if (onlyModel !== undefined && model !== onlyModel) {
        const message = `The model \`${model}\` does not exist or you do not have access to it.`;
        throw new ApiError(404, message, 'model', 'model_not_found');
      }
      const { rules } = profileOf({ name: profile, model });
      const context = { profile, route, model, rules, given };
      const request = wire.read(body, context);
      refuseFlaws(request, context);
      return askedOf(
        request,
        (answer) => {
          given.note(answer);
          wire.keep?.(answer, body, given);
        },
        wire,
      );
    },
  };
}

function askedOf(request: WireRequest, keep: (answer: ModelAnswer) => void, { names }: Wire): Asked {
  return {
    request,
    demo: () => cutReply(stopped(demoReply(request), request.stops), request.maxTokens),
    answer(reply, model) {
      const made = answerOf(request, reply, { ...names, model });
      const isStateful = request.wantsState && (request.reasons || made.reasoning !== '');
      const answer = { ...made, hasState: isStateful };
      keep(answer);
      return answer;
    },
  };
}

/** Refuses a request for the first rule that it breaks, and names it. */
function refuseFlaws(request: WireRequest, { profile, rules, given }: ReadContext): void {
  const { dialects } = request;
  const tools = request.tools.map((tool, index) => (dialects.has(index) ? { ...tool, parameters: anyObject } : tool));
  const seen = { ...request, tools, toolChoice: request.givenChoice };
  const [flaw] = [
    ...request.flaws,
    ...requestFlaws(seen, rules),
    ...idFlaws(request, rules, given),
    ...dialectFlaws(request),
  ];
  if (flaw === undefined) return;
  const { at, message, rule } = flaw;
  throw new ApiError(400, `Invalid request at ${at}: ${message} (rule ${rule} of ${profile}).`, at);
}

/** Ids of calls are those that the server gave, or such as it takes. */
function* idFlaws({ messages }: WireRequest, { callIds }: RequestRules, given: GivenState): Generator<WireFlaw> {
  for (const { at, calls } of messages)
    for (const { id } of calls)
      if (given.answerWith(id) === undefined && !callIds.test(id))
        yield { rule: 'callIds', at, message: `the id "${id}" of a call` };
}

/** Stands in for a schema that is checked in a dialect of its own. */
const anyObject = { type: 'object', properties: {} };

function* dialectFlaws({ output, tools, dialects }: WireRequest): Generator<WireFlaw> {
  const schemas: readonly WireSchema[] = [
    ...[...dialects].map(([index, dialect]) => ({
      at: `tools[${index}]`,
      schema: tools[index]?.parameters ?? {},
      dialect,
    })),
    ...(output === undefined ? [] : [output]),
  ];
  for (const { at, schema, dialect } of schemas)
    for (const message of schemaFlaws(schema, schemaDialects[dialect])) yield { rule: 'schema', at, message };
}

const outputTool = 'finish';

/** What the demo model answers; where the request has a schema of the answer, what it would give a tool of that schema. */
function demoReply(request: WireRequest): ModelReply {
  const { output, reasons } = request;
  const reasoning = reasons ? { reasoning: 'I look at what is asked.' } : {};
  if (output === undefined) return { ...reasoning, ...demoModel(request) };
  const finish = { name: outputTool, description: 'Gives the answer.', parameters: output.schema };
  const { text, toolCalls = [] } = demoModel({ ...request, tools: [...request.tools, finish] });
  const answer = toolCalls.find(({ name }) => name === outputTool);
  return {
    ...reasoning,
    ...(answer === undefined ? { ...(text !== undefined && { text }), toolCalls } : { text: answer.arguments }),
  };
}

/** The reply up to the first text that ends it. */
function stopped(reply: ModelReply, stops: readonly string[]): ModelReply {
  const { text = '' } = reply;
  const ends = stops.map((stop) => text.indexOf(stop)).filter((index) => index >= 0);
  return ends.length === 0 ? reply : { ...reply, text: text.slice(0, Math.min(...ends)), toolCalls: [] };
}
