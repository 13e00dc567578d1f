"""Images, captions and pairs in files: read, downloaded, written."""

from unbag.data.images import FileImage, PixelImage

__all__ = ["FileImage", "PixelImage"]
