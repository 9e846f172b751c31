import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { failureIn, readFailure } from 'millrace/internals';

const now = Date.UTC(2026, 0, 1);

describe('M-16 a prompt that is too long', () => {
  type Row = readonly [vendor: string, status: number | undefined, body: unknown, sizes?: object];
  const rows: readonly Row[] = [
    [
      'OpenAI',
      400,
      {
        error: {
          message:
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 150000 tokens. Please reduce the length of the messages.",
          type: 'invalid_request_error',
          param: 'messages',
          code: 'context_length_exceeded',
        },
      },
      { limit: 128000, used: 150000 },
    ],
    [
      'OpenAI, Responses API',
      undefined,
      {
        type: 'error',
        error: {
          type: 'invalid_request_error',
          code: 'context_length_exceeded',
          message: 'Your input exceeds the context window of this model. Please adjust your input and try again.',
          param: 'input',
        },
      },
    ],
    [
      'Anthropic',
      400,
      {
        type: 'error',
        error: { type: 'invalid_request_error', message: 'prompt is too long: 210000 tokens > 200000 maximum' },
      },
      { limit: 200000, used: 210000 },
    ],
    [
      'Anthropic with max_tokens',
      400,
      {
        type: 'error',
        error: {
          type: 'invalid_request_error',
          message:
            'input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again',
        },
      },
      { limit: 200000, used: 210000 },
    ],
    [
      'Anthropic, 413',
      413,
      { type: 'error', error: { type: 'request_too_large', message: 'Request exceeds the maximum size' } },
    ],
    [
      'Gemini',
      400,
      {
        error: {
          code: 400,
          message: 'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
          status: 'INVALID_ARGUMENT',
        },
      },
      { limit: 1048576, used: 1200000 },
    ],
    [
      'Vertex',
      400,
      [
        {
          error: {
            code: 400,
            message: 'The input token count is 40000 but model only supports up to 32768.',
            status: 'INVALID_ARGUMENT',
          },
        },
      ],
      { limit: 32768, used: 40000 },
    ],
    ['Bedrock', 400, { message: 'Input is too long for requested model.' }],
    [
      'Bedrock, by the vendor behind it',
      400,
      {
        __type: 'ValidationException',
        message: 'The model returned the following errors: prompt is too long: 210000 tokens > 200000 maximum',
      },
      { limit: 200000, used: 210000 },
    ],
    [
      'vLLM',
      400,
      {
        object: 'error',
        message:
          "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens in the messages, Please reduce the length of the messages.",
        type: 'BadRequestError',
        param: null,
        code: 400,
      },
      { limit: 8192, used: 9000 },
    ],
    [
      'vLLM, decoder',
      400,
      {
        error: {
          message:
            'The decoder prompt (length 9000) is longer than the maximum model length of 8192. Make sure that `max_model_len` is no smaller than the number of text tokens.',
          type: 'BadRequestError',
          code: 400,
        },
      },
      { limit: 8192, used: 9000 },
    ],
    [
      'llama.cpp',
      400,
      {
        error: {
          code: 400,
          message: 'the request exceeds the available context size, try increasing it',
          type: 'exceed_context_size_error',
          n_prompt_tokens: 5000,
          n_ctx: 4096,
        },
      },
      { limit: 4096, used: 5000 },
    ],
    [
      'llama.cpp, 500',
      500,
      {
        error: {
          code: 500,
          message: 'request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it',
          type: 'server_error',
        },
      },
      { limit: 4096, used: 5000 },
    ],
    ['Ollama', 400, { error: 'prompt too long; exceeded max context length by 4 tokens' }],
    ['Ollama, 500', 500, { error: 'the input length exceeds the context length' }],
    [
      'LM Studio',
      undefined,
      {
        error:
          'The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 5000>= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input.',
      },
      { limit: 4096, used: 5000 },
    ],
    [
      'LM Studio, older',
      400,
      {
        error:
          'Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.',
      },
      { limit: 4096, used: 5000 },
    ],
    [
      'Groq',
      400,
      {
        error: {
          message: 'Please reduce the length of the messages or completion.',
          type: 'invalid_request_error',
          param: 'messages',
          code: 'context_length_exceeded',
        },
      },
    ],
    [
      'Groq, 413',
      413,
      {
        error: {
          message:
            'Request too large for model `x` in organization `org` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size and try again.',
          type: 'tokens',
          code: 'rate_limit_exceeded',
        },
      },
      { limit: 6000, used: 7000 },
    ],
    [
      'Mistral',
      400,
      {
        object: 'error',
        message:
          'Prompt contains 40001 tokens and 0 draft tokens, too large for model with 32768 maximum context length',
        type: 'invalid_request_prompt_error',
        code: '3051',
      },
      { limit: 32768, used: 40001 },
    ],
    [
      'xAI',
      400,
      {
        code: 'Client specified an invalid argument',
        error: "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
      },
      { limit: 131072, used: 537812 },
    ],
    [
      'Cohere',
      400,
      {
        message:
          'too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000. Try using a shorter prompt',
      },
      { limit: 4081, used: 5000 },
    ],
    [
      'OpenRouter',
      400,
      {
        error: {
          message:
            "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens (30000 of text input, 10000 in the output). Please reduce the length of either one",
          code: 400,
        },
      },
      { limit: 32768, used: 40000 },
    ],
    [
      'Together',
      422,
      {
        error: {
          message:
            'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4000 `inputs` tokens and 1000 `max_new_tokens`',
          type: 'invalid_request_error',
        },
      },
      { limit: 4097 },
    ],
    [
      'DeepSeek',
      400,
      {
        error: {
          message:
            "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens (66000 in the messages, 4000 in the completion). Please reduce the length of the messages or completion.",
          type: 'invalid_request_error',
          code: 'invalid_request_error',
        },
      },
      { limit: 65536, used: 70000 },
    ],
    [
      'Moonshot',
      400,
      {
        error: {
          message: 'Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)',
          type: 'invalid_request_error',
        },
      },
      { limit: 8192, used: 9000 },
    ],
    ['Z.ai', 400, { error: { code: '1261', message: 'Prompt exceeds max length' } }],
    [
      'MiniMax',
      undefined,
      { base_resp: { status_code: 2013, status_msg: 'invalid params, context window exceeds limit' } },
    ],
    [
      'GitHub Copilot',
      400,
      {
        error: {
          message: 'prompt token count of 130000 exceeds the limit of 128000',
          code: 'model_max_prompt_tokens_exceeded',
        },
      },
      { limit: 128000, used: 130000 },
    ],
    [
      'GitHub Models',
      413,
      {
        error: {
          code: 'tokens_limit_reached',
          message: 'Request body too large for gpt-4o model. Max size: 8000 tokens.',
        },
      },
      { limit: 8000 },
    ],
    [
      'LiteLLM',
      400,
      {
        error: {
          message:
            "litellm.ContextWindowExceededError: litellm.BadRequestError: OpenAIException - This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
          type: null,
          param: null,
          code: '400',
        },
      },
      { limit: 8192, used: 9000 },
    ],
    [
      'SGLang',
      400,
      {
        object: 'error',
        message: "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
        type: 'BadRequestError',
        code: 400,
      },
      { limit: 8192, used: 9000 },
    ],
    [
      'DashScope',
      400,
      { code: 'InvalidParameter', message: 'Range of input length should be [1, 30720]', request_id: 'x' },
    ],
    [
      'Text Generation Inference',
      422,
      {
        error: 'Input validation error: `inputs` must have less than 4095 tokens. Given: 5000',
        error_type: 'validation',
      },
      { limit: 4095, used: 5000 },
    ],
    [
      'Azure',
      400,
      {
        error: {
          message:
            "This model's maximum context length is 16385 tokens, however you requested 17000 tokens (13000 in your prompt; 4000 for the completion).",
          type: null,
          code: 'context_length_exceeded',
          innererror: {},
        },
      },
      { limit: 16385, used: 17000 },
    ],
    [
      'Fireworks',
      400,
      {
        error: {
          object: 'error',
          type: 'invalid_request_error',
          message: 'The prompt is too long: 140000, model maximum context length: 131071',
        },
      },
      { limit: 131071, used: 140000 },
    ],
    [
      'Cerebras',
      400,
      {
        message: 'Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192',
        type: 'invalid_request_error',
        param: 'messages',
        code: 'context_length_exceeded',
      },
      { limit: 8192, used: 9000 },
    ],
    [
      'Databricks',
      400,
      { error_code: 'BAD_REQUEST', message: 'prompt is too long: 9000 tokens > 8192 maximum' },
      { limit: 8192, used: 9000 },
    ],
  ];

  it.each(rows)('in the words of %s', (...[, status, body, sizes]) => {
    const failure = readFailure({ body, status, now });
    expect(failure).toMatchObject({ code: 'CONTEXT_OVERFLOW', retryable: false });
    expect(failure.details).toEqual(sizes);
  });

  const inStream = rows.filter(([vendor]) => vendor !== 'Groq, 413');

  it.each(inStream)('in a stream that began well, in the words of %s', (...[, , body]) => {
    expect(readFailure({ body: failureIn(body), now })).toMatchObject({ code: 'CONTEXT_OVERFLOW', retryable: false });
  });
});

describe('M-15 whether a failure passes by waiting', () => {
  type Row = readonly [
    what: string,
    status: number | undefined,
    body: unknown,
    headers: Record<string, string>,
    code: string,
    retryable: boolean,
    retryAfterMs?: number,
  ];
  const rows: readonly Row[] = [
    [
      'openai quota',
      429,
      {
        error: {
          message: 'You exceeded your current quota, please check your plan and billing details.',
          type: 'insufficient_quota',
          code: 'insufficient_quota',
        },
      },
      {},
      'PROVIDER_RATE_LIMIT',
      false,
    ],
    [
      'moonshot',
      429,
      {
        error: {
          message: 'Your account is suspended, please check your plan and billing details',
          type: 'exceeded_current_quota_error',
        },
      },
      {},
      'PROVIDER_RATE_LIMIT',
      false,
    ],
    [
      'moonshot engine',
      429,
      {
        error: {
          message: 'The engine is currently overloaded, please try again later',
          type: 'engine_overloaded_error',
        },
      },
      {},
      'PROVIDER_RATE_LIMIT',
      true,
    ],
    [
      'deepseek',
      402,
      { error: { message: 'Insufficient Balance', type: 'unknown_error', code: 'invalid_request_error' } },
      {},
      'PROVIDER_AUTH',
      false,
    ],
    [
      'anthropic credit',
      400,
      {
        type: 'error',
        error: {
          type: 'invalid_request_error',
          message:
            'Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.',
        },
      },
      {},
      'PROVIDER_AUTH',
      false,
    ],
    [
      'gemini prepay',
      429,
      {
        error: {
          code: 429,
          message: 'Your prepayment credits are depleted. Please go to AI Studio to manage your project and billing.',
          status: 'RESOURCE_EXHAUSTED',
        },
      },
      {},
      'PROVIDER_RATE_LIMIT',
      false,
    ],
    [
      'gemini rpm',
      429,
      {
        error: {
          code: 429,
          message:
            'You exceeded your current quota, please check your plan and billing details. * Quota exceeded for metric: x, limit: 10\nPlease retry in 34.07s.',
          status: 'RESOURCE_EXHAUSTED',
          details: [
            {
              '@type': 'type.googleapis.com/google.rpc.QuotaFailure',
              violations: [
                { quotaMetric: 'x', quotaId: 'GenerateRequestsPerMinutePerProjectPerModel-FreeTier', quotaValue: '10' },
              ],
            },
            { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '34s' },
          ],
        },
      },
      {},
      'PROVIDER_RATE_LIMIT',
      true,
      34000,
    ],
    [
      'gemini rpd',
      429,
      {
        error: {
          code: 429,
          message: 'You exceeded your current quota, please check your plan and billing details.',
          status: 'RESOURCE_EXHAUSTED',
          details: [
            {
              '@type': 'q',
              violations: [
                { quotaMetric: 'x', quotaId: 'GenerateRequestsPerDayPerProjectPerModel-FreeTier', quotaValue: '50' },
              ],
            },
            { '@type': 'RetryInfo', retryDelay: '34s' },
          ],
        },
      },
      {},
      'PROVIDER_RATE_LIMIT',
      false,
    ],
    [
      'gemini limit 0',
      429,
      {
        error: {
          code: 429,
          message: 'Quota exceeded for metric: x, limit: 0, model: y\nPlease retry in 34s.',
          status: 'RESOURCE_EXHAUSTED',
        },
      },
      {},
      'PROVIDER_RATE_LIMIT',
      false,
    ],
    [
      'minimax',
      429,
      { error: { http_code: '429', message: 'insufficient balance (1008)', type: 'insufficient_balance_error' } },
      {},
      'PROVIDER_RATE_LIMIT',
      false,
    ],
    [
      'minimax200',
      undefined,
      { base_resp: { status_code: 1008, status_msg: 'insufficient balance' } },
      {},
      'PROVIDER_AUTH',
      false,
    ],
    [
      'minimax rate',
      undefined,
      { base_resp: { status_code: 1002, status_msg: 'rate limit' } },
      {},
      'PROVIDER_RATE_LIMIT',
      true,
    ],
    [
      'zai zh',
      429,
      { error: { code: '1113', message: '余额不足或无可用资源包,请充值。' } },
      {},
      'PROVIDER_RATE_LIMIT',
      false,
    ],
    [
      'openrouter 402',
      402,
      {
        error: {
          code: 402,
          message:
            'This request requires more credits, or fewer max_tokens. You requested up to 8192 tokens, but can only afford 100.',
        },
      },
      {},
      'PROVIDER_AUTH',
      false,
    ],
    [
      'xai',
      403,
      {
        code: 'The caller does not have permission',
        error: 'Your team x has either used all available credits or reached its monthly spending limit.',
      },
      {},
      'PROVIDER_AUTH',
      false,
    ],
    [
      'too large',
      429,
      {
        error: {
          message:
            'Request too large for gpt-4o in organization org on tokens per min (TPM): Limit 30000, Requested 40000. The input or output tokens must be reduced in order to run successfully.',
          type: 'tokens',
          code: 'rate_limit_exceeded',
        },
      },
      {},
      'PROVIDER_RATE_LIMIT',
      false,
    ],
    [
      'tpd',
      429,
      {
        error: {
          message:
            'Rate limit reached for model `x` on tokens per day (TPD): Limit 100000, Used 99999, Requested 4000. Please try again in 57m35.136s.',
          type: 'tokens',
          code: 'rate_limit_exceeded',
        },
      },
      {},
      'PROVIDER_RATE_LIMIT',
      true,
      3455136,
    ],
    [
      'free day',
      429,
      {
        error: {
          message: 'Rate limit exceeded: free-models-per-day',
          code: 429,
          metadata: {
            headers: {
              'X-RateLimit-Limit': '50',
              'X-RateLimit-Remaining': '0',
              'X-RateLimit-Reset': String(now + 7_200_000),
            },
          },
        },
      },
      {},
      'PROVIDER_RATE_LIMIT',
      true,
      7200000,
    ],
    [
      'groq tuf',
      400,
      {
        error: {
          message: 'Failed to call a function. Please adjust your prompt.',
          type: 'invalid_request_error',
          code: 'tool_use_failed',
          failed_generation: 'x',
        },
      },
      {},
      'PROVIDER_SERVER',
      true,
    ],
    [
      'groq bad name',
      400,
      {
        error: {
          message: "tool call validation failed: attempted to call tool 'foo' which was not in request.tools",
          type: 'invalid_request_error',
        },
      },
      {},
      'PROVIDER_SERVER',
      true,
    ],
    [
      'bedrock seq',
      424,
      {
        __type: 'ModelErrorException',
        message:
          'Model produced invalid sequence as part of ToolUse. Please refer to the model tool use troubleshooting guide.',
      },
      {},
      'PROVIDER_SERVER',
      true,
    ],
    [
      'bedrock throttle',
      400,
      { __type: 'ThrottlingException', message: 'Too many tokens, please wait before trying again.' },
      {},
      'PROVIDER_RATE_LIMIT',
      true,
    ],
    [
      'bedrock throttle hdr',
      429,
      { message: 'Too many requests, please wait before trying again.' },
      {},
      'PROVIDER_RATE_LIMIT',
      true,
    ],
    [
      'azure',
      429,
      {
        error: {
          code: '429',
          message:
            'Requests to the ChatCompletions_Create Operation under Azure OpenAI API have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 26 seconds. Please go here if you would like to further increase the default rate limit.',
        },
      },
      {},
      'PROVIDER_RATE_LIMIT',
      true,
      26000,
    ],
    [
      'gemini key',
      400,
      {
        error: {
          code: 400,
          message: 'API key not valid. Please pass a valid API key.',
          status: 'INVALID_ARGUMENT',
          details: [{ reason: 'API_KEY_INVALID' }],
        },
      },
      {},
      'PROVIDER_AUTH',
      false,
    ],
    [
      'gemini 503',
      503,
      { error: { code: 503, message: 'The model is overloaded. Please try again later.', status: 'UNAVAILABLE' } },
      {},
      'PROVIDER_SERVER',
      true,
    ],
    [
      '400 overloaded',
      400,
      { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
      {},
      'PROVIDER_SERVER',
      true,
    ],
    [
      '500 auth',
      500,
      { error: { type: 'authentication_error', message: 'invalid x-api-key' } },
      {},
      'PROVIDER_AUTH',
      false,
    ],
    [
      'hf loading',
      503,
      { error: 'Model x is currently loading', estimated_time: 20.5 },
      {},
      'PROVIDER_SERVER',
      true,
      20500,
    ],
    ['ollama nf', undefined, { error: 'model "x" not found, try pulling it first' }, {}, 'PROVIDER_NOT_FOUND', false],
    ['pause hdr ms', 429, {}, { 'retry-after-ms': '1500' }, 'PROVIDER_RATE_LIMIT', true, 1500],
    [
      'reset hdr',
      429,
      {},
      { 'x-ratelimit-reset-tokens': '7.66s', 'x-ratelimit-remaining-tokens': '0' },
      'PROVIDER_RATE_LIMIT',
      true,
      7660,
    ],
    ['should not', 503, {}, { 'x-should-retry': 'false' }, 'PROVIDER_SERVER', false],
    [
      'content policy',
      400,
      {
        error: {
          code: 'content_filter',
          message: 'The response was filtered due to the prompt triggering Azure content management policy.',
          status: 400,
          innererror: { code: 'ResponsibleAIPolicyViolation', content_filter_result: {} },
        },
      },
      {},
      'PROVIDER_BAD_REQUEST',
      false,
    ],
    [
      'max_tokens big',
      400,
      {
        error: {
          message: 'max_tokens is too large: 100000. This model supports at most 16384 completion tokens',
          type: 'invalid_request_error',
          code: 'invalid_value',
        },
      },
      {},
      'PROVIDER_BAD_REQUEST',
      false,
    ],
    ['502 html', 502, '<html><head><title>502 Bad Gateway</title></head></html>', {}, 'PROVIDER_SERVER', true],
    [
      'litellm budget',
      400,
      {
        error: {
          message: 'Budget has been exceeded! Current cost: 1.0, Max budget: 0.5',
          type: 'budget_exceeded',
          code: '400',
        },
      },
      {},
      'PROVIDER_AUTH',
      false,
    ],
    [
      'copilot',
      402,
      { error: { message: 'You have exceeded your quota', code: 'quota_exceeded' } },
      {},
      'PROVIDER_AUTH',
      false,
    ],
    ['str', undefined, 'upstream connect error or disconnect/reset before headers', {}, 'PROVIDER_SERVER', true],
    [
      'invalid tool schema',
      400,
      {
        error: {
          message: "Invalid schema for function 'x': In context=(), object schema missing properties",
          type: 'invalid_request_error',
          code: 'invalid_function_parameters',
        },
      },
      {},
      'PROVIDER_BAD_REQUEST',
      false,
    ],
    [
      'azure 404',
      404,
      { error: { code: 'DeploymentNotFound', message: 'The API deployment for this resource does not exist.' } },
      {},
      'PROVIDER_NOT_FOUND',
      false,
    ],
    [
      'groq over',
      498,
      { error: { message: 'Flex tier capacity exceeded', type: 'capacity_exceeded' } },
      {},
      'PROVIDER_SERVER',
      true,
    ],
    [
      'zai 1302',
      429,
      { error: { code: '1302', message: 'High concurrency usage of this API' } },
      {},
      'PROVIDER_RATE_LIMIT',
      true,
    ],
    [
      'zai 1308',
      429,
      {
        error: {
          code: '1308',
          message: 'Usage limit reached for 5 hour. Your limit will reset at 2026-01-01 03:00:00',
        },
      },
      {},
      'PROVIDER_RATE_LIMIT',
      true,
      10800000,
    ],
    [
      'anthropic 429 body',
      429,
      {
        type: 'error',
        error: {
          type: 'rate_limit_error',
          message: "This request would exceed your organization's rate limit of 30,000 input tokens per minute",
        },
      },
      { 'retry-after': '12' },
      'PROVIDER_RATE_LIMIT',
      true,
      12000,
    ],
    [
      'mistral 429',
      429,
      {
        object: 'error',
        message: 'Service tier capacity exceeded for this model.',
        type: 'service_tier_capacity_exceeded',
        code: '3505',
      },
      {},
      'PROVIDER_RATE_LIMIT',
      true,
    ],
    [
      'temp 400',
      400,
      {
        error: {
          message: "Unsupported value: 'temperature' does not support 0.2 with this model.",
          type: 'invalid_request_error',
          param: 'temperature',
          code: 'unsupported_value',
        },
      },
      {},
      'PROVIDER_BAD_REQUEST',
      false,
    ],
    [
      'billing hard',
      400,
      {
        error: {
          message: 'Billing hard limit has been reached',
          type: 'insufficient_quota',
          code: 'billing_hard_limit_reached',
        },
      },
      {},
      'PROVIDER_AUTH',
      false,
    ],
  ];

  it.each(rows)('%s', (...[, status, body, headers, code, retryable, retryAfterMs]) => {
    const failure = readFailure({ body, status, headers: new Headers(headers), now });
    expect(failure).toMatchObject({ code, retryable, ...(retryAfterMs !== undefined && { retryAfterMs }) });
  });

  it.each([
    408, 409, 425, 429, 498, 499, 500, 502, 503, 504, 507, 520, 521, 522, 523, 524, 525, 526, 527, 529, 530, 599,
  ])('HTTP %i does, also without a word', (status) => {
    const body = status === 498 ? { error: { type: 'capacity_exceeded' } } : '';
    expect(readFailure({ body, status, now }).retryable).toBe(true);
  });

  it.each([400, 401, 402, 403, 404, 405, 410, 413, 414, 415, 418, 422, 451, 501, 505])('HTTP %i does not', (status) => {
    expect(readFailure({ body: '', status, now }).retryable).toBe(false);
  });
});

describe('M-15 the pause that a server asks for', () => {
  it.each([
    ['try again in 5.289s', 5_289],
    ['Please try again in 6ms.', 6],
    ['try again in 1m2s', 62_000],
    ['retry in 200ms', 200],
    ['Please retry after 26 seconds.', 26_000],
    ['Please wait 30 seconds and try again', 30_000],
    ['try again in 2 minutes', 120_000],
    ['try again in 2h 3m', 7_380_000],
    ['resets at 2026-01-01T00:00:05Z', 5_000],
    ['You will regain access on 2026-01-02 at 00:00 UTC.', 86_400_000],
    ['try again later', undefined],
    ['At most 5 minutes of audio', undefined],
  ])('in words: %s', (words, expected) => {
    const body = { error: { message: `Rate limit reached. ${words}` } };
    expect(readFailure({ body, status: 429, now }).retryAfterMs).toBe(expected);
  });

  it.each([
    [
      {
        'x-ratelimit-reset-tokens': '7.66s',
        'x-ratelimit-reset-requests': '2m0s',
        'x-ratelimit-remaining-tokens': '0',
      },
      7_660,
    ],
    [{ 'x-ratelimit-reset': String(now + 4_000) }, 4_000],
    [{ 'x-ratelimit-reset': String(now / 1_000 + 4) }, 4_000],
    [{ 'anthropic-ratelimit-tokens-reset': '2026-01-01T00:00:09Z' }, 9_000],
    [{ 'ratelimit-reset': '11' }, 11_000],
    [{ 'x-ratelimit-reset-tokens-minute': '11.38', 'x-ratelimit-reset-requests-day': '33011.3' }, 11_380],
    [{ 'retry-after': '3', 'x-ratelimit-reset': '60' }, 3_000],
  ])('in headers: %j', (headers, expected) => {
    const given = new Headers(Object.entries(headers));
    expect(readFailure({ body: '', status: 429, headers: given, now }).retryAfterMs).toBe(expected);
  });

  it('in members of the body', () => {
    for (const error of [
      { retry_after: 3 },
      { retry_after_ms: 3_000 },
      { metadata: { retry_after_seconds: 3 } },
      { resets_at: now / 1_000 + 3 },
      { details: [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '3s' }] },
    ]) {
      expect(readFailure({ body: { error }, status: 429, now }).retryAfterMs).toBe(3_000);
    }
  });
});

describe('a failure in a body with a good status', () => {
  const failures: readonly (readonly [body: unknown, words: string])[] = [
    [{ error: 'just a text' }, 'just a text'],
    [{ x_groq: { error: 'over capacity' } }, 'over capacity'],
    [{ x_groq: { error: { message: 'over capacity' } } }, 'over capacity'],
    [{ code: 400, message: 'Provider returned error' }, 'Provider'],
    [{ base_resp: { status_code: 1004, status_msg: 'login fail' } }, 'login fail'],
    [{ detail: 'Not authenticated' }, 'Not auth'],
    [{ detail: [{ loc: ['body'], msg: 'field required' }] }, 'field required'],
    [{ object: 'error', message: 'm x' }, 'm x'],
    [{ __type: 'X', message: 'boom x' }, 'boom x'],
    [{ message: 'Internal server error' }, 'Internal'],
    [
      {
        choices: [
          {
            index: 0,
            delta: { content: '' },
            error: { code: 502, message: 'Upstream error x' },
            finish_reason: 'error',
          },
        ],
      },
      'Upstream error x',
    ],
    [{ choices: [{ message: { error: { message: 'in the message' } } }] }, 'in the message'],
    [{ meta: { error: { message: 'nested one' } } }, 'nested one'],
    [{ internalServerException: { message: 'it broke' } }, 'it broke'],
    [[{ error: { message: 'array one' } }], 'array one'],
    [{ errors: [{ message: 'first of' }] }, 'first of'],
    [
      {
        type: 'response.failed',
        response: { status: 'failed', error: { code: 'server_error', message: 'resp failed' } },
      },
      'resp failed',
    ],
    [{ type: 'error', code: 'x', message: 'plain one' }, 'plain one'],
    [{ success: false, message: 'no luck' }, 'no luck'],
    [{ statusCode: 401, message: 'Access denied x' }, 'Access denied'],
    [{ code: 'InvalidApiKey', message: 'Invalid API-key provided.', request_id: 'x' }, 'Invalid API-key'],
    [{ error_code: 17, error_msg: 'Open api daily request limit reached' }, 'daily request'],
    [{ header: { code: 10013, message: 'input text bad', sid: 'x' } }, 'input text bad'],
    [{ Response: { Error: { Code: 'X', Message: 'hunyuan words' } } }, 'hunyuan words'],
    [{ error: true, message: 'flag and words' }, 'flag and words'],
    [{ status: 'error', message: 'it failed badly' }, 'it failed badly'],
    [{ error_message: 'em words' }, 'em words'],
    [{ choices: [], code: 500, message: 'with choices' }, 'with choices'],
    [{ choices: [{ delta: {} }], code: 503, message: 'beside choices' }, 'beside choices'],
    [{ fault: { faultstring: 'Apigee quota', detail: { errorcode: 'x' } } }, 'Apigee'],
    [{ provider_error: { message: 'by provider' } }, 'by provider'],
    [{ response: { error: { message: 'in response' } } }, 'in response'],
    [{ data: { error: { message: 'in data' } } }, 'in data'],
    [
      {
        error: {
          message: 'litellm.BadRequestError: XException - {"error":{"message":"nested json words","type":"x"}}',
        },
      },
      'nested json words',
    ],
    [{ error: { message: "Error code: 400 - {'error': {'message': 'python words', 'type': 'x'}}" } }, 'python words'],
    [{ error: { message: 'Provider returned error', metadata: { raw: 'plain raw words' } } }, 'plain raw words'],
    [{ error: { message: 'Bad Request', innererror: { code: 'x', message: 'inner words here' } } }, 'inner words here'],
    [{ error: { message: 'general thing happened', cause: { message: 'cause words here' } } }, 'cause words here'],
    [{ error: { message: 'Upstream error', details: 'details as text' } }, 'details as text'],
    [
      { error: { message: 'Provider returned error', metadata: { raw: { error: { message: 'raw object words' } } } } },
      'raw object words',
    ],
    [
      {
        error: {
          message: 'Provider returned error',
          metadata: {
            raw: '{"error":{"message":"Provider returned error","metadata":{"raw":"{\\"message\\":\\"two gateways deep\\"}"}}}',
          },
        },
      },
      'two gateways deep',
    ],
    [{ error: 'Bad Request', message: 'specific nest words', statusCode: 400 }, 'specific nest words'],
    [{ error: { message: "Invalid 'messages[3]': a blank content" } }, "Invalid 'messages[3]': a blank content"],
    [{ error: { message: 'Invalid request at tools[0]: no type' } }, 'Invalid request at tools[0]: no type'],
  ];

  it.each(failures)('M-05 %j', (body, words) => {
    expect(readFailure({ body: failureIn(body), now }).words).toContain(words);
  });

  const answers: readonly object[] = [
    { choices: [{ index: 0, delta: { content: 'error: failed' } }] },
    { choices: [], error: null },
    { choices: [], error: {} },
    { choices: [{ delta: {} }], base_resp: { status_code: 0, status_msg: '' } },
    { choices: [{ delta: {} }], code: 0, message: 'success' },
    { choices: [{ delta: {} }], code: 20000, message: 'ok' },
    { choices: [{ delta: { tool_calls: [{ function: { name: 'error', arguments: '{"error":1}' } }] } }] },
    {
      choices: [
        {
          delta: { content: '' },
          content_filter_results: { error: { code: 'content_filter_error', message: 'The contents are not filtered' } },
        },
      ],
    },
    {
      choices: [],
      prompt_filter_results: [{ prompt_index: 0, content_filter_results: { hate: { filtered: false } } }],
    },
    { type: 'response.output_item.done', item: { type: 'mcp_call', error: 'tool failed' } },
    {
      type: 'response.completed',
      response: {
        status: 'completed',
        error: null,
        incomplete_details: null,
        output: [{ error: 'x' }],
        metadata: { error: 'x' },
      },
    },
    {
      type: 'response.incomplete',
      response: { status: 'incomplete', error: null, incomplete_details: { reason: 'max_output_tokens' } },
    },
    {
      type: 'content_block_start',
      content_block: {
        type: 'web_search_tool_result',
        content: { type: 'web_search_tool_result_error', error_code: 'x' },
      },
    },
    { type: 'ping' },
    { type: 'message_start', message: { id: 'x', content: [] } },
    {
      candidates: [{ content: { parts: [{ text: 'error' }] }, finishReason: 'STOP' }],
      usageMetadata: {},
      modelVersion: 'x',
    },
    { choices: [], x_groq: { id: 'req', usage: {} } },
    { status: 'in_progress', message: 'keepalive' },
    { status: 200, message: 'OK', choices: [] },
    { event: 'progress', error_count: 0, errors: [] },
    { choices: [{ delta: {} }], error: { code: 0, message: 'success' } },
    { choices: [{ delta: {} }], error: '' },
    { id: 'x', status: 'queued' },
    { code: 'success', message: 'ok' },
    { choices: [], service_tier: 'default', x_info: { cache: 'hit', latency: { first: 3 } } },
    { choices: [], header: { code: 0, message: 'Success', sid: 'x', status: 2 } },
    { success: true },
    { type: 'keepalive' },
    { type: 'response.output_text.delta', delta: 'error' },
    { object: 'chat.completion.chunk', choices: [], warnings: ['error rate high'] },
    { choices: [{ delta: { reasoning_details: [{ error: 'x' }] } }] },
    { choices: [{ delta: { provider_specific_fields: { error: 'x' } } }] },
  ];

  it.each(answers)('M-05 is none in %j', (answer) => {
    expect(failureIn(answer)).toBeUndefined();
  });
});

describe('the reader', () => {
  it('gives a failure for every body and every status, and never throws', () => {
    const bodies = fc.oneof(fc.jsonValue(), fc.string(), fc.constant('<'.repeat(1_000)));
    const statuses = fc.oneof(fc.constant(undefined), fc.integer({ min: 400, max: 599 }));
    fc.assert(
      fc.property(bodies, statuses, (body, status) => {
        const failure = readFailure({ body, status, now });
        expect(typeof failure.words).toBe('string');
        expect(failure.retryAfterMs ?? 0).toBeGreaterThanOrEqual(0);
      }),
    );
  });

  it('finds nothing in what a model wrote, whatever it is', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (written) => {
        expect(
          failureIn({ choices: [{ index: 0, delta: { content: 'a', provider_specific_fields: written } }] }),
        ).toBeUndefined();
        expect(failureIn({ type: 'response.output_item.done', item: written })).toBeUndefined();
      }),
    );
  });

  it('reads a nested error of a thousand levels, and a megabyte of words', () => {
    const nested = `${'{"error":'.repeat(1_000)}"deep"${'}'.repeat(1_000)}`;
    expect(readFailure({ body: JSON.parse(nested), status: 400, now })).toMatchObject({ code: 'PROVIDER_BAD_REQUEST' });
    const words = 'exceeds context '.repeat(65_536);
    expect(readFailure({ body: { error: words }, status: 500, now }).words.length).toBeLessThan(10_000);
  });
});
