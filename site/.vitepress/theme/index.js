// The theme: VitePress's own, with the colours and pictures of this site.
import DefaultTheme from "vitepress/theme-without-fonts";
import "./style.css";

export default DefaultTheme;
