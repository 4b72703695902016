// What is outside of the scripts: the head that app/ui/addresses.py writes, and the registry that Gradio's components call.

interface Window {
  ForetokenPages?: Record<string, string>;
  Foretoken: Record<string, unknown>;
  gradio_config: {
    api_prefix: string;
    version: string;
    components: { id: number; props: { elem_id?: string; server_fns?: string[] } }[];
  };
  ForetokenPage?: string;
}

declare module "*.css";
