/**
 * Whether the environment requests the unreleased conventions of generative AI after 1.41.0: `OTEL_SEMCONV_STABILITY_OPT_IN` contains
 * `gen_ai_latest_experimental`.
 */
export function wantsLatestConventions(): boolean {
  const names = process.env['OTEL_SEMCONV_STABILITY_OPT_IN']?.split(',') ?? [];
  return names.some((name) => name.trim() === 'gen_ai_latest_experimental');
}
