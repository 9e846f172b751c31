/** The schema of the names that are written; the later names have no released schema. */
export function schemaOfConventions(): { readonly schemaUrl?: string } {
  return wantsLatestConventions() ? {} : { schemaUrl: 'https://opentelemetry.io/schemas/1.41.0' };
}

/**
 * Whether the environment requests the unreleased conventions of generative AI after 1.41.0: `OTEL_SEMCONV_STABILITY_OPT_IN` contains
 * `gen_ai_latest_experimental`.
 */
export function wantsLatestConventions(): boolean {
  const names = process.env['OTEL_SEMCONV_STABILITY_OPT_IN']?.split(',') ?? [];
  return names.some((name) => name.trim() === 'gen_ai_latest_experimental');
}
