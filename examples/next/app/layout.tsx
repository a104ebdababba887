/** The script that fills the hidden fields of forms, once for all pages. */
import { keyScript } from "nevertwice/http/form";
import type { ReactNode } from "react";

export default function Layout({ children }: { readonly children: ReactNode }) {
  return (
    <html lang="en">
      <head>
        {/* biome-ignore lint/security/noDangerouslySetInnerHtml: a constant text */}
        <script dangerouslySetInnerHTML={{ __html: keyScript }} />
      </head>
      <body>{children}</body>
    </html>
  );
}
