import type { Attributes } from '@opentelemetry/api';
import type { Resource } from '@opentelemetry/resources';
import { loadSdk } from './load-sdk.ts';

/** Who sends spans and metrics: the given name, else what the environment says, else `millrace`. */
export function resourceOf(serviceName: string | undefined): Resource {
  const { defaultResource, detectResources, envDetector, resourceFromAttributes } = loadSdk('@opentelemetry/resources');
  const own: Attributes = serviceName === undefined ? {} : { 'service.name': serviceName };
  return defaultResource()
    .merge(resourceFromAttributes({ 'service.name': 'millrace' }))
    .merge(detectResources({ detectors: [envDetector] }))
    .merge(resourceFromAttributes(own));
}
