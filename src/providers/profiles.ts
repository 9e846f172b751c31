import type { TurnCallSettings } from '../core/contracts/index.ts';
import type { SchemaDialect } from './fit-schema.ts';

/** The members of a call's settings that a model may refuse. */
export type SettingName = keyof TurnCallSettings;

/** The form in which a server receives the amount of reasoning. `none`: not at all. */
export type ReasoningForm =
  | 'none'
  /** `reasoning_effort: "low"` */
  | 'effort'
  /** `reasoning: { effort }` or `{ max_tokens }` */
  | 'openrouter'
  /** `thinking: { type: "enabled" | "disabled" }` */
  | 'switch'
  /** `thinking: { type: "enabled", budget_tokens }`, as LiteLLM passes it on; an effort goes as `reasoning_effort` */
  | 'budget'
  /** `chat_template_kwargs: { enable_thinking }` */
  | 'template'
  /** In the vendor's own form, by its package. */
  | 'sdk';

/** What a request to a server must satisfy. The words "takes" and "refuses" are those of its answers: 400 or worse. */
export interface RequestRules {
  /** The ids of calls that it takes, beside those that it gave. */
  readonly callIds: RegExp;
  /** The names of tools and calls that it takes. */
  readonly names: RegExp;
  /** Whether it takes messages and parts that are empty or blank. */
  readonly takesBlank: boolean;
  /** Whether instructions may stand anywhere; else they become one system message, the first. */
  readonly systemAnywhere: boolean;
  /** Whether it takes two messages of one role in a row. */
  readonly takesAnyOrder: boolean;
  /** Whether it takes a conversation that begins with the assistant. */
  readonly takesAnyStart: boolean;
  /** Whether it takes a user message directly after the result of a tool. */
  readonly takesUserAfterTool: boolean;
  /** Whether it takes an assistant's message as the last, to continue it. */
  readonly takesPrefill: boolean;
  /** Where pictures and files of a tool's result go: with it, or in a user message after the batch. */
  readonly resultMedia: 'result' | 'message';
  /** Where pictures of the assistant go: with its message, or in the next user message. */
  readonly answerMedia: 'answer' | 'message';
  /**
   * A history with calls in a request without tools: `taken`; or it is sent as text, or with the names of its calls as tools that must not be called.
   */
  readonly callsWithoutTools: 'taken' | 'as-text' | 'with-tools';
  /** The dialect of the schemas of tools. */
  readonly schema: SchemaDialect;
  /** The dialect of the schema of an answer. */
  readonly outputSchema: SchemaDialect;
  /** The most tools that one request may offer. */
  readonly maxTools: number;
  /** Whether it takes a forced tool while the model reasons. */
  readonly takesForcedToolWhileReasoning: boolean;
  /** Whether the vendor's package asks for an answer of a schema that is not strict by a forced tool. */
  readonly looseFormatForcesTool?: boolean | undefined;
  /** Whether the model reasons where the request does not say so. */
  readonly reasonsByDefault: boolean;
  readonly refuses: readonly SettingName[];
  readonly refusesWhileReasoning: readonly SettingName[];
  /** The only effort with which the endpoint takes tools. */
  readonly effortWithTools?: 'none' | undefined;
  readonly maxTokensField: 'max_tokens' | 'max_completion_tokens';
  readonly reasoning: ReasoningForm;
  /** The lowest and the highest effort that it takes, where it does not take all. */
  readonly efforts?: readonly string[] | undefined;
  /** The vendor's documented stand-in for the signature of a call of this turn that it did not give. */
  readonly signatureStandIn?: string | undefined;
  /** Whether reasoning in plain text goes back beside calls, where this server gave it. */
  readonly reasoningBack: boolean;
  /** The member that each message with calls must have, whoever gave it. */
  readonly reasoningMember?: 'reasoning_content' | undefined;
  /** Whether parts of messages may carry `cache_control`. */
  readonly takesCacheMarks: boolean;
}

/** What every known server takes: for servers of which nothing is known. */
const careful: RequestRules = {
  callIds: /^[a-zA-Z0-9]{9}$/,
  names: /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/,
  takesBlank: false,
  systemAnywhere: false,
  takesAnyOrder: false,
  takesAnyStart: false,
  takesUserAfterTool: false,
  takesPrefill: true,
  resultMedia: 'message',
  answerMedia: 'message',
  callsWithoutTools: 'as-text',
  schema: 'careful',
  outputSchema: 'careful-strict',
  maxTools: 128,
  takesForcedToolWhileReasoning: true,
  reasonsByDefault: false,
  refuses: [],
  refusesWhileReasoning: [],
  maxTokensField: 'max_tokens',
  reasoning: 'effort',
  reasoningBack: true,
  takesCacheMarks: false,
};

const plainIds = /^[a-zA-Z0-9_-]{1,40}$/;
const plainNames = /^[a-zA-Z0-9_-]{1,64}$/;
const anyText = /./s;

interface ServerRow {
  /** Host names of its addresses; absent: it has none of its own. */
  readonly hosts?: RegExp;
  readonly rules: Partial<RequestRules>;
}

/** OpenAI's own rules, also at Azure. */
const openai: Partial<RequestRules> = {
  callIds: plainIds,
  names: plainNames,
  takesBlank: true,
  systemAnywhere: true,
  takesAnyOrder: true,
  takesAnyStart: true,
  takesUserAfterTool: true,
  callsWithoutTools: 'taken',
  schema: 'openai',
  outputSchema: 'openai-strict',
};

const anthropic: Partial<RequestRules> = {
  callIds: /^[a-zA-Z0-9_-]{1,64}$/,
  names: plainNames,
  takesAnyOrder: true,
  takesUserAfterTool: true,
  resultMedia: 'result',
  callsWithoutTools: 'with-tools',
  schema: 'anthropic',
  outputSchema: 'anthropic-output',
  maxTools: 10_000,
  takesForcedToolWhileReasoning: false,
  looseFormatForcesTool: true,
  refusesWhileReasoning: ['temperature', 'topP'],
  reasoning: 'sdk',
};

const google: Partial<RequestRules> = {
  callIds: anyText,
  takesAnyOrder: true,
  takesUserAfterTool: true,
  resultMedia: 'result',
  answerMedia: 'answer',
  callsWithoutTools: 'taken',
  schema: 'google',
  outputSchema: 'google',
  maxTools: 512,
  reasoning: 'sdk',
};

const mistral: Partial<RequestRules> = {
  schema: 'mistral',
  outputSchema: 'mistral-strict',
  takesPrefill: false,
  callsWithoutTools: 'taken',
};

/** Servers that pass any vendor's request on, and fit it themselves. */
const gateway: Partial<RequestRules> = { takesCacheMarks: true, effortWithTools: undefined };

/**
 * What is known of each server, by name: the one table of vendors' rules. Members that a row lacks are those of a server of which nothing
 * is known. To add a server, add a row, and a recorded stream to the tests.
 */
export const servers = {
  unknown: { rules: {} },
  'openai-responses': {
    rules: { ...openai, reasoning: 'sdk', effortWithTools: undefined, callIds: /^[a-zA-Z0-9_-]{1,64}$/ },
  },
  'openai-chat': { hosts: /(^|\.)api\.openai\.com$/, rules: openai },
  azure: { hosts: /\.(openai|services\.ai|cognitiveservices)\.azure\.com$/, rules: openai },
  anthropic: { hosts: /(^|\.)anthropic\.com$/, rules: anthropic },
  bedrock: {
    hosts: /(^|\.)amazonaws\.com$/,
    rules: {
      ...anthropic,
      schema: 'bedrock',
      takesAnyOrder: false,
      resultMedia: 'message',
      callsWithoutTools: 'as-text',
      refusesWhileReasoning: ['temperature', 'topP'],
    },
  },
  google: { rules: google },
  vertex: { rules: google },
  'google-chat': {
    hosts: /(^|\.)googleapis\.com$/,
    rules: {
      ...google,
      schema: 'google-openapi',
      outputSchema: 'google-openapi',
      resultMedia: 'message',
      answerMedia: 'message',
      reasoning: 'effort',
    },
  },
  mistral: { hosts: /(^|\.)mistral\.ai$/, rules: mistral },
  xai: { hosts: /(^|\.)x\.ai$/, rules: { ...openai, schema: 'xai', outputSchema: 'xai-strict' } },
  groq: {
    hosts: /(^|\.)groq\.com$/,
    rules: {
      schema: 'groq',
      outputSchema: 'groq-strict',
      takesAnyOrder: true,
      takesUserAfterTool: true,
      callIds: plainIds,
      callsWithoutTools: 'taken',
    },
  },
  deepseek: {
    hosts: /(^|\.)deepseek\.com$/,
    rules: {
      reasoningMember: 'reasoning_content',
      schema: 'deepseek',
      outputSchema: 'careful-strict',
      takesAnyOrder: true,
      takesUserAfterTool: true,
      callIds: plainIds,
      callsWithoutTools: 'taken',
      reasoning: 'switch',
    },
  },
  moonshot: {
    hosts: /(^|\.)moonshot\.(ai|cn)$/,
    rules: {
      reasoningMember: 'reasoning_content',
      schema: 'moonshot',
      outputSchema: 'moonshot-strict',
      callIds: anyText,
      takesAnyOrder: true,
      takesUserAfterTool: true,
      callsWithoutTools: 'taken',
      reasoning: 'switch',
    },
  },
  zai: {
    hosts: /(^|\.)(z\.ai|bigmodel\.cn)$/,
    rules: {
      schema: 'zai',
      outputSchema: 'careful-strict',
      callIds: plainIds,
      takesUserAfterTool: true,
      reasoning: 'switch',
    },
  },
  minimax: {
    hosts: /(^|\.)minimaxi?\.(io|com|chat)$/,
    rules: { schema: 'minimax', outputSchema: 'careful-strict', callIds: plainIds, reasoning: 'none' },
  },
  alibaba: {
    hosts: /(^|\.)aliyuncs\.com$/,
    rules: {
      schema: 'qwen',
      outputSchema: 'careful-strict',
      callIds: plainIds,
      takesUserAfterTool: true,
      reasoning: 'none',
    },
  },
  together: { hosts: /(^|\.)together\.(ai|xyz)$/, rules: {} },
  fireworks: { hosts: /(^|\.)fireworks\.ai$/, rules: {} },
  cerebras: { hosts: /(^|\.)cerebras\.ai$/, rules: {} },
  openrouter: { hosts: /(^|\.)openrouter\.ai$/, rules: { ...gateway, reasoning: 'openrouter' } },
  litellm: { rules: { ...gateway, reasoning: 'budget' } },
  vllm: { rules: { reasoning: 'template' } },
  llamacpp: { rules: { reasoning: 'template', schema: 'llama-cpp', outputSchema: 'llama-cpp' } },
  ollama: { hosts: /(^|\.)ollama\.com$/, rules: { schema: 'llama-cpp', outputSchema: 'llama-cpp' } },
  lmstudio: { rules: { schema: 'llama-cpp', outputSchema: 'llama-cpp' } },
} as const satisfies Readonly<Record<string, ServerRow>>;

/** The name of a server in the table of profiles. */
export type ProfileName = keyof typeof servers;

export const profileNames = Object.keys(servers) as readonly ProfileName[];

interface ModelRow {
  /** Names of models, without the way to them, in lower case. */
  readonly models: RegExp;
  /** Servers at which the row does not count, because they fit the request themselves or have an endpoint without the limit. */
  readonly except?: readonly ProfileName[];
  readonly rules: Partial<RequestRules>;
}

/**
 * What holds for a family of models at any server, also behind a proxy. All rows that match count, later ones over earlier ones.
 * Sources: the vendors' references, and refusals that users reported.
 */
const models: readonly ModelRow[] = [
  {
    models: /^(gpt-4|chatgpt|gpt-5|gpt-6|o\d)/,
    rules: {
      schema: 'openai',
      outputSchema: 'openai-strict',
      names: plainNames,
      takesUserAfterTool: true,
      takesBlank: true,
    },
  },
  {
    models: /^(o\d|gpt-[56](?!.*-chat))/,
    rules: {
      refuses: ['temperature', 'topP', 'stop'],
      maxTokensField: 'max_completion_tokens',
      reasonsByDefault: true,
    },
  },
  {
    models: /^o\d/,
    rules: { refuses: ['temperature', 'topP', 'stop', 'parallelToolCalls'], efforts: ['low', 'medium', 'high'] },
  },
  { models: /^gpt-5(-mini|-nano|-\d{4}|$)/, rules: { efforts: ['minimal', 'low', 'medium', 'high'] } },
  { models: /^gpt-(5\.[1-9]|6)/, rules: { efforts: ['none', 'low', 'medium', 'high', 'xhigh'] } },
  {
    models: /^gpt-(5\.([4-9]|\d\d)|6)/,
    except: ['openai-responses', 'litellm', 'openrouter', 'azure'],
    rules: { effortWithTools: 'none' },
  },
  {
    models: /claude/,
    rules: {
      schema: 'anthropic',
      outputSchema: 'anthropic-output',
      takesForcedToolWhileReasoning: false,
      refusesWhileReasoning: ['temperature', 'topP'],
    },
  },
  // From Opus 4.1 on, one of the two at most; from 4.7 on, neither.
  {
    models: /claude-(opus-4-[7-9]|(opus|sonnet|haiku|fable|mythos)-([5-9]|\d\d))/,
    rules: { refuses: ['temperature', 'topP'], takesPrefill: false },
  },
  { models: /claude-(opus|sonnet)-4-6/, rules: { takesPrefill: false } },
  { models: /^(models\/)?gemini/, rules: { schema: 'google-openapi', outputSchema: 'google-openapi' } },
  { models: /^(models\/)?gemini-([3-9]|\d\d)/, rules: { reasonsByDefault: true } },
  {
    models: /^(models\/)?gemini-([3-9]|\d\d)/,
    except: ['openrouter', 'litellm'],
    rules: { signatureStandIn: 'skip_thought_signature_validator' },
  },
  {
    models: /^(open-)?(mistral|mixtral|ministral|magistral|codestral|devstral|pixtral|voxtral)/,
    rules: { callIds: careful.callIds, takesUserAfterTool: false, takesPrefill: false },
  },
  { models: /^kimi|moonshot/, rules: { callIds: anyText } },
  {
    models: /^(deepseek-(v4|v5|reasoner|r\d)|kimi.*thinking|kimi-k[2-9]\.[5-9]|glm-([5-9]|4\.[5-9])|qwen3|qwq)/,
    rules: { reasonsByDefault: true, takesForcedToolWhileReasoning: false },
  },
  { models: /^qwen/, rules: { systemAnywhere: false } },
  { models: /^grok-(3-mini|4|5|code)/, rules: { refuses: ['stop'], reasonsByDefault: true } },
];

/** What is known of one model at one server. */
export interface Profile {
  readonly name: ProfileName;
  readonly rules: RequestRules;
}

export interface ProfileOf {
  /** The row to take; default: by the host of the address. */
  readonly name?: ProfileName | undefined;
  readonly address?: string | undefined;
  readonly model: string;
}

/** The profile of a model at an address. A server that is not known gets what every known server takes, beside the rules of the model. */
export function profileOf({ name, address, model }: ProfileOf): Profile {
  const server = name ?? serverAt(address) ?? 'unknown';
  const plain = plainModel(model);
  const row: ServerRow = servers[server];
  const families = models
    .filter(({ models: family, except }) => family.test(plain) && except?.includes(server) !== true)
    .map(({ rules }) => rules);
  return { name: server, rules: Object.assign({}, careful, row.rules, ...families, ownRules(row.rules)) };
}

/** What a server decides, whichever model answers. */
function ownRules({ effortWithTools, schema, outputSchema }: Partial<RequestRules>): Partial<RequestRules> {
  return {
    ...(effortWithTools !== undefined && { effortWithTools }),
    ...(schema !== undefined && { schema }),
    ...(outputSchema !== undefined && { outputSchema }),
  };
}

function serverAt(address: string | undefined): ProfileName | undefined {
  if (address === undefined || !URL.canParse(address)) return undefined;
  const { hostname } = new URL(address);
  return profileNames.find((name) => {
    const { hosts }: ServerRow = servers[name];
    return hosts?.test(hostname) === true;
  });
}

/** Without the way to it: `openrouter/anthropic/claude-…`, `us.anthropic.claude-…`. */
function plainModel(model: string): string {
  const name = model.toLowerCase().split('/').at(-1) ?? '';
  return name.replace(/^(?:[a-z]+\.)+(?=[a-z])/, '');
}

/** A profile with an option of the user in place of its rule. */
export function withResultMedia(profile: Profile, resultMedia: RequestRules['resultMedia'] | undefined): Profile {
  return resultMedia === undefined ? profile : { ...profile, rules: { ...profile.rules, resultMedia } };
}

/** Whether options in a vendor's own form make the model reason; `undefined` where they do not say. */
export function reasonsBy(options: Readonly<Record<string, unknown>>): boolean | undefined {
  const said = [
    typeIn(options['thinking']),
    options['reasoning_effort'],
    options['enable_thinking'],
    typeIn(options['reasoning']),
  ];
  const given = said.find((value) => value !== undefined);
  return given === undefined ? undefined : !(given === false || given === 'disabled' || given === 'none');
}

function typeIn(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  return Reflect.get(value, 'type') ?? Reflect.get(value, 'effort') ?? Reflect.get(value, 'enabled') ?? true;
}
