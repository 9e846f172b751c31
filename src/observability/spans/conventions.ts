/**
 * Whether the environment asks for the conventions of generative AI after 1.41.0, which are not released: `OTEL_SEMCONV_STABILITY_OPT_IN` has
 * `gen_ai_latest_experimental` among its names.
 */
export function wantsLatestConventions(): boolean {
  const names = process.env['OTEL_SEMCONV_STABILITY_OPT_IN']?.split(',') ?? [];
  return names.some((name) => name.trim() === 'gen_ai_latest_experimental');
}
