"""Read, write and download images, captions and training pairs."""

from unbag.data.images import FileImage, PixelImage

__all__ = ["FileImage", "PixelImage"]
